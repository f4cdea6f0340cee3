"""Models of one body with a spherical joint, in quaternions on Livens' principle."""

import numpy as np
import pytest

import polhode as ph
from polhode.systems import QuaternionBody

INERTIA = [[0.3, 0.05, 0.01], [0.05, 0.4, 0.02], [0.01, 0.02, 0.25]]


def tumbling_body(*, gravity=(0.0, 0.0, -9.81), duration=0.5, base=False):
    """A top without symmetry; its pivot, axes and start are as general as can be."""
    model = ph.Model(gravity=gravity)
    first = model.ground
    if base:
        first = model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0), position=(3, 0, 0), name="base")
        model.add(ph.joints.Fixed(model.ground, first))
    body = model.add_body(
        mass=2.0,
        inertia=INERTIA,
        position=(0.0, 0.2, 0.4),
        rotation=ph.rotation_vector((0.3, -0.5, 0.2)),
        angular_velocity=(1.0, -2.0, 4.0),
        name="top",
    )
    model.add(ph.joints.Spherical(first, body, point=(0.1, 0.0, 0.0)))
    return model.problem("minimal", t1=duration, repair=True)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["emh", "mph", "reml", "mpl"])
def test_order_is_2_for_positions_attitudes_and_velocities(method):
    problem = tumbling_body()
    exact = ph.simulate(problem, "rkmk6", h=1 / 512).outputs
    errors = []
    for h in (1 / 64, 1 / 128):
        found = ph.simulate(problem, method, h=h).outputs
        errors.append([np.max(np.abs(found[n][-1] - exact[n][-1])) for n in ("positions", "rotations", "velocities")])
    assert np.log2(errors[0]) - np.log2(errors[1]) == pytest.approx([2, 2, 2], abs=0.1)


@pytest.mark.exhaustive
def test_energy_and_momentum_about_the_vertical_are_kept_by_emh_alone():
    problem, size = tumbling_body(), {}
    for method in ("emh", "mph"):
        run = ph.simulate(problem, method, h=1 / 64)
        x, R = run.outputs["positions"][:, 0] - (0.1, 0.0, 0.0), run.outputs["rotations"][:, 0]
        spin = np.einsum("nij,jk,nk->ni", R, np.array(INERTIA), run.outputs["angular_velocities"][:, 0])
        about = np.cross(x, 2.0 * run.outputs["velocities"][:, 0])[:, 2] + spin[:, 2]
        size[method] = np.ptp(run.invariants["energy"]), np.ptp(about)
    # Of energies up to 23.
    assert size["emh"][0] < 1e-12
    assert size["emh"][1] < 1e-11
    assert size["mph"][0] > 1e-5


@pytest.mark.exhaustive
def test_a_base_that_is_fixed_changes_nothing():
    alone, based = (
        ph.simulate(tumbling_body(base=base), "emh", h=1 / 64).outputs["positions"] for base in (False, True)
    )
    assert based[:, -1] == pytest.approx(alone[:, 0], abs=1e-13)


@pytest.mark.exhaustive
def test_axes_of_the_inertia_are_free():
    J = np.array(INERTIA)
    moments, axes = np.linalg.eigh(J)
    axes = axes * np.linalg.det(axes)
    runs = []
    for inertia, omega in ((J, np.array([1.0, -2.0, 4.0])), (moments, axes.T @ (1.0, -2.0, 4.0))):
        body = QuaternionBody(inertia)
        runs.append(ph.simulate(body, "emh", t0=0.0, t1=1.0, state0=body.turning((1, 0, 0, 0), omega), h=0.01).state)
    omegas = [QuaternionBody(J).angular_velocity(s.q[-1], s.v[-1]) for s in runs]
    assert np.asarray(omegas[0]) == pytest.approx(axes @ np.asarray(omegas[1]), abs=1e-12)


@pytest.mark.parametrize("inertia", [np.diag([1.0, 2.0, -0.1]), [[1.0, 0.5, 0], [0.4, 1, 0], [0, 0, 1]]])
def test_inertia_that_none_can_have_is_refused(inertia):
    with pytest.raises(ValueError, match="positive definite"):
        QuaternionBody(inertia)


def test_what_it_takes_is_said():
    model = ph.Model()
    bodies = [model.add_body(mass=1.0, inertia=(1, 1, 1), position=(0, 0, -k)) for k in (1, 2)]
    for first, second, z in ((model.ground, bodies[0], 0), (bodies[0], bodies[1], -1)):
        model.add(ph.joints.Spherical(first, second, point=(0, 0, z)))
    for formulation in ("minimal", "SO3xR3"):
        with pytest.raises(ValueError, match="one spherical joint to the ground"):
            ph.simulate(model.problem(formulation, t1=0.1), "emh")
