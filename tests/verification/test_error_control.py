"""Error control: accuracy, rejected steps, and independence of the inertial frame."""

import jax
import numpy as np
import pytest

import polhode as ph

PAIRS = ["rkmk32", "rkmk54", "cf32a", "cf32b", "cf43"]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", [*PAIRS, "ode23", "dopri5"])
def test_error_follows_tolerance(name):
    problem = ph.problems.get("free-rigid-body", formulation="S3")
    exact = problem.reference["rotation"]
    errors = []
    for rtol in (1e-4, 1e-6):
        run = ph.simulate(problem, name, rtol=rtol, save_every=None)
        assert run.t[-1] == problem.t_span[1]
        errors.append(np.abs(run.outputs["rotation"][-1] - exact["value"]).max())
    # The tolerance bounds the error of a step; some hundred steps and their growth follow.
    assert errors[1] < 1e3 * 1e-6
    assert errors[0] / errors[1] > 10


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", PAIRS)
def test_steps_do_not_depend_on_the_inertial_frame(name):
    """The same tumbling body in ten inertial frames: the same accepted and rejected steps."""
    problem = ph.problems.get("free-rigid-body", formulation="SO3")
    R0, W0 = problem.state0
    counts = set()
    for seed in range(10):
        frame = ph.spaces.SO3().random(jax.random.key(seed))
        run = ph.simulate(problem, name, rtol=1e-6, state0=(frame @ R0, W0), t1=0.5, save_every=None)
        counts.add((run.stats["steps"], run.stats["rejected"]))
    assert len(counts) == 1


@pytest.mark.exhaustive
def test_chain_in_rotated_frames_takes_the_same_steps():
    """On (TS²)^N, where the state itself rotates; rotations about the vertical are symmetries."""
    q = np.array([[0.6, 0.48, 0.64], [-0.36, 0.8, 0.48]])
    omega = np.cross(q, [[1.0, -0.5, 0.3], [0.2, 1.5, -0.7]])
    counts = set()
    for angle in np.linspace(0, 6, 10):
        c, s = np.cos(angle), np.sin(angle)
        turn = np.array([[c, -s, 0], [s, c, 0], [0, 0, 1]])
        problem = ph.problems.get("pendulum-chain", n=2, q=q @ turn.T, omega=omega @ turn.T)
        run = ph.simulate(problem, "rkmk54", rtol=1e-6, t1=1.0, save_every=None)
        counts.add((run.stats["steps"], run.stats["rejected"]))
    assert len(counts) == 1


def test_pi_control_and_limits_are_obeyed():
    problem = ph.problems.get("heavy-top", formulation="S3")
    control = ph.StepControl(pi=0.4, first_step=1e-4, max_step=2e-3, max_factor=2.0)
    run = ph.simulate(problem, "rkmk54", rtol=1e-3, control=control, t1=0.2)
    steps = np.diff(run.t)
    assert steps[0] == pytest.approx(1e-4)
    assert steps.max() <= 2e-3 * (1 + 1e-12)
    assert (steps[1:-1] / steps[:-2]).max() <= 2.0 + 1e-9


def test_euclidean_norm_is_that_of_the_whole_increment():
    space = ph.spaces.product(ph.spaces.S3(), ph.spaces.Rn(3))
    from polhode.simulation.stepping.step_control import Tolerances

    error = np.arange(1.0, 7.0)
    q = space.origin()
    measured = ph.StepControl(norm="euclidean").measure(space, error, q, q, Tolerances(0.0, 2.0))
    assert float(measured) == pytest.approx(np.linalg.norm(error) / 2)


def test_rejected_steps_are_counted():
    run = ph.simulate(ph.problems.get("pendulum-chain", n=2), "rkmk54", rtol=1e-6, save_every=None)
    assert run.stats["rejected"] > 0
    assert run.stats["evaluations"] == (run.stats["steps"] + run.stats["rejected"]) * 6
