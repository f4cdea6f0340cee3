"""Orders of attitude and velocity in other coordinates than the default, and of a careless method: a control.

`test_methods.py` has the orders of every method.
"""

import numpy as np
import pytest

import polhode as ph
from polhode.problems import free_rigid_body_solution

T1 = 0.8


@pytest.fixture(scope="module")
def tumbling():
    problem = ph.problems.get("free-rigid-body", formulation="S3", angular_velocity=(3.0, 5.0, 4.0))
    rotation, velocity = free_rigid_body_solution((6.0, 8.0, 3.0), (3.0, 5.0, 4.0), np.array([T1]))
    return problem, {"rotation": rotation[-1], "angular_velocity": velocity[-1]}


def test_velocities_by_rk4_and_one_exponential_lose_order(tumbling):
    """The control: what a careless order-4 integrator would do shows order 2 in the attitude."""
    _, exact = tumbling
    inertia = np.array([6.0, 8.0, 3.0])
    space = ph.spaces.S3()

    def acceleration(W):
        return np.cross(inertia * W, W) / inertia

    def end(n):
        h, q, W = T1 / n, space.origin(), np.array([3.0, 5.0, 4.0])
        for _ in range(n):
            k1 = acceleration(W)
            k2 = acceleration(W + h / 2 * k1)
            k3 = acceleration(W + h / 2 * k2)
            k4 = acceleration(W + h * k3)
            mean = W + h / 6 * (k1 + k2 + k3)
            q = space.compose(q, space.exp(h * mean))
            W = W + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4)
        return np.asarray(space.to_matrix(q)), W

    counts = np.array([20, 40, 80])
    ends = [end(n) for n in counts]
    attitude = [np.linalg.norm(R - exact["rotation"]) for R, _ in ends]
    velocity = [np.linalg.norm(W - exact["angular_velocity"]) for _, W in ends]
    assert abs(ph.studies.observed_order(T1 / counts, np.array(velocity), 1e-13) - 4) < 0.2
    assert ph.studies.observed_order(T1 / counts, np.array(attitude), 1e-13) < 3.2


@pytest.mark.sampled(2)
@pytest.mark.parametrize("coordinates", ["exp", "cayley", "second-kind"])
def test_order_in_other_coordinates(tumbling, coordinates):
    problem, exact = tumbling
    method = ph.integrators.get("rkmk4", coordinates=coordinates)
    study = ph.studies.convergence(problem, method, [8e-3 / 2**k for k in range(4)], list(exact), T1, exact)
    for part in exact:
        assert abs(study.orders[part] - 4) < 0.15, (part, study.errors[part])


def test_truncated_dexpinv_keeps_order_four(tumbling):
    problem, exact = tumbling
    method = ph.integrators.get("rkmk4", dexpinv="truncated")
    study = ph.studies.convergence(problem, method, [8e-3 / 2**k for k in range(4)], list(exact), T1, exact)
    for part in exact:
        assert abs(study.orders[part] - 4) < 0.15, (part, study.errors[part])


def test_heavy_top_of_the_papers():
    """RKMK4, h = 1e-4: R·(0, 1, 0) at t = 1 to 1e-7."""
    run = ph.simulate(ph.problems.get("heavy-top"), "rkmk4", h=1e-4, save_every=None)
    exact = (0.17334396409839, 0.64008859207057, -0.74849079113358)
    np.testing.assert_allclose(run.outputs["centre_of_mass"][-1], exact, rtol=0, atol=1e-7)
