"""Flexible bodies in models: beams, rods and rigid bodies as references, joints at nodes, invariants, refusals."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from beams import Beam
from compiling import evaluated
from slider_crank_reference import motion

import polhode as ph
from polhode.linalg.blocks import to_dense
from polhode.multibody.formulations.floating_frame import FloatingFrame
from polhode.multibody.stability_limits import stability_limit

N = 8
ENDS = {"root": 0, "tip": N}
BEAM = Beam()
SOFT = Beam(modulus=7e9, moment=5e-9)


def reduced(beam: Beam, **options: Any) -> ph.flexible.FlexiblePart:
    return ph.flexible.reduced(*beam.matrices(N), beam.points(N), **{"nodes": ENDS, "modes": 4, **options})


def cantilever(beam: Beam = BEAM, gravity: float = 0.0, **options: Any) -> tuple[ph.Model, Any]:
    model = ph.Model(gravity=(0, 0, -gravity))
    body = model.add_flexible(reduced(beam, **options), name="beam")
    model.add(ph.joints.Fixed(model.ground, body.node("root"), point=(0, 0, 0), name="clamp"))
    return model, body


# --- statics and vibrations -----------------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("formulation", ["SO3xR3", "S3|xR3"])
def test_a_cantilever_vibrates_as_a_beam(formulation):
    system, state = cantilever(modes=6)[0].assemble(formulation)
    found = ph.modes(system, state).frequencies
    bending = np.array([1.8751041, 4.6940911, 7.8547574]) ** 2 * np.sqrt(BEAM.bending / BEAM.line_mass)
    np.testing.assert_allclose(found[[0, 2]], bending[:2], rtol=1e-3)
    np.testing.assert_allclose(found[4], bending[2], rtol=5e-3)
    np.testing.assert_allclose(found[[1, 3, 5]], found[[0, 2, 4]], rtol=1e-6)


@pytest.mark.exhaustive
def test_a_cantilever_bends_under_a_force_and_its_weight():
    model, body = cantilever()
    model.add(ph.forces.PointForce(body.node("tip"), (0, 0.3, 1.0)))
    system, state = model.assemble("SO3xR3")
    tip = system.pose(ph.equilibrium(system, state).state[0], body.node("tip"))
    bent = BEAM.length**3 / (3 * BEAM.bending)
    np.testing.assert_allclose(tip.x[1:], [0.3 * bent, bent], rtol=1e-6)
    np.testing.assert_allclose(tip.R[2, 0], 1.5 * bent / BEAM.length, rtol=1e-5)
    heavy, body = cantilever(gravity=9.81, modes=8)
    system, state = heavy.assemble("SE3")
    tip = system.pose(ph.equilibrium(system, state).state[0], body.node("tip"))
    sagged = 9.81 * BEAM.line_mass * BEAM.length**4 / (8 * BEAM.bending)
    np.testing.assert_allclose(-tip.x[2], sagged, rtol=1e-4)


# --- large motions --------------------------------------------------------------------------------------------------


def pendulum(model: ph.Model, end: Any) -> ph.Solution:
    """Released from the horizontal, for a third of its way."""
    model.add(ph.joints.Revolute(model.ground, end, point=(0, 0, 0), axis=(0, 1, 0), name="pivot"))
    return ph.simulate(model.problem("SO3xR3", t1=0.3, h=1e-3, redundant="minimum-norm"))


def flexible_pendulum(beam: Beam, **options: Any) -> tuple[np.ndarray, np.ndarray]:
    """Tip, and how far the beam has bent."""
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_flexible(reduced(beam, **options), name="beam")
    out = pendulum(model, body.node("root")).outputs
    x, R = np.asarray(out["positions"]), np.asarray(out["rotations"])
    # In the order of `system.names`: the body, its root, its tip.
    return x[:, 2], np.cross(R[:, 1, :, 0], x[:, 2] - x[:, 1])[:, 1]


def rod_pendulum(beam: Beam, edges: int) -> np.ndarray:
    bending, torsion = beam.bending, beam.shear * beam.torsion
    shear, extension = 1e3 * bending, beam.modulus * beam.area
    turning = 2 * beam.density * beam.moment
    section = ph.rods.Section(
        stiffness=(bending, bending, torsion, shear, shear, extension),
        mass=beam.line_mass,
        # The finite elements have no rotary inertia in bending.
        inertia=(1e-3 * turning, 1e-3 * turning, turning),
    )
    model = ph.Model(gravity=(0, 0, -9.81))
    rod = model.add_rod(points=beam.points(edges), section=section, constrained="kirchhoff")
    return np.asarray(pendulum(model, rod.first).outputs["positions"])[:, -1]


@pytest.mark.exhaustive
def test_a_pendulum_bends_as_a_rod_does():
    tip, bent = flexible_pendulum(SOFT)
    coarse, fine = (rod_pendulum(SOFT, edges) for edges in (8, 16))
    off = [np.max(np.abs(rod - tip)) for rod in (coarse, fine)]
    # Rods are of order 2 in their edges; extrapolated, what is left is far below what bending does.
    assert 3.5 < off[0] / off[1] < 4.5
    largest = np.max(np.abs(bent))
    assert largest > 1e-3
    assert np.max(np.abs((4 * fine - coarse) / 3 - tip)) < 0.03 * largest


@pytest.mark.exhaustive
def test_frames_give_the_same_motion():
    tips = [flexible_pendulum(SOFT, frame=frame)[0] for frame in ("mean", "root")]
    # They differ by products of deformations only.
    assert np.max(np.abs(tips[1] - tips[0])) < 3e-5


@pytest.mark.exhaustive
def test_a_stiff_body_moves_as_a_rigid_one():
    stiff = dataclasses.replace(SOFT, modulus=1e6 * SOFT.modulus, shear=1e6 * SOFT.shear)
    part = reduced(stiff, modes=np.int64(0))
    tip = flexible_pendulum(stiff, modes=0)[0]
    model = ph.Model(gravity=(0, 0, -9.81))
    body = model.add_body(mass=part.modal.mass, inertia=part.modal.inertia, position=part.centre)
    out = pendulum(model, body).outputs
    rigid = np.asarray(out["positions"])[:, 0] + 0.5 * stiff.length * np.asarray(out["rotations"])[:, 0, :, 0]
    np.testing.assert_allclose(tip, rigid, atol=2e-7)
    # A soft one doesn't.
    assert np.max(np.abs(flexible_pendulum(SOFT)[0] - rigid)) > 1e-4


@pytest.mark.exhaustive
def test_joints_between_nodes_hold():
    """Two beams in a loop with the ground, on joints of different kinds, with a spring across one of them."""
    model = ph.Model(gravity=(0, 0, -9.81))
    part = reduced(SOFT, modes=0)
    first = model.add_flexible(part, name="first")
    second = model.add_flexible(part, name="second", position=(1.0, 0, 0), rotation=ph.rotation_vector((0, 1.0, 0)))
    end = second.node("tip").x
    model.add(ph.joints.Revolute(model.ground, first.node("root"), point=(0, 0, 0), axis=(0, 1, 0)))
    pair = first.node("tip"), second.node("root")
    model.add(ph.joints.Universal(*pair, point=(1, 0, 0), first_axis=(0, 1, 0), second_axis=(0, 0, 1)))
    model.add(ph.joints.Spherical(second.node("tip"), model.ground, point=end))
    across = first.node("root"), first.node("tip"), (0, 0, 0.1), (1, 0, 0.2)
    model.add(ph.forces.SpringDamper(*across, stiffness=50.0, damping=0.1))
    system, state = model.assemble("SE3")
    assert [group.count for group in system.coordinates.bodies] == [2]
    assert system.names == ("first", "first-root", "first-tip", "second", "second-root", "second-tip")
    rng = np.random.default_rng(1)
    space = system.configuration
    q = space.move(state[0], jnp.asarray(0.1 * rng.standard_normal(system.n)))
    v, multipliers = (jnp.asarray(rng.standard_normal(size)) for size in (system.n, system.m))
    t = jnp.zeros(())

    def found(q, v):
        n, m = system.n, system.m
        return (
            to_dense(system.jacobian(t, q), (m, n)),
            system.constraint_rate(t, q, v),
            system.curvature(t, q, v),
            to_dense(system.stiffness(t, q, v), (n, n)),
            to_dense(system.damping(t, q, v), (n, n)),
            to_dense(system.geometric_stiffness(t, q, multipliers), (n, n)),
        )

    def expected(q, v):
        rest, zero = jnp.zeros(system.n), jnp.zeros(())
        gap = lambda s: system.constraint(t, space.move(q, s * v))  # noqa: E731
        rate = lambda s: jax.jvp(gap, (s,), (jnp.ones(()),))[1]  # noqa: E731
        moved = lambda f: jax.jacfwd(lambda theta: f(space.move(q, theta)))(rest)  # noqa: E731
        return (
            moved(lambda q: system.constraint(t, q)),
            rate(zero),
            jax.jvp(rate, (zero,), (jnp.ones(()),))[1],
            -moved(lambda q: system.force(t, q, v)),
            -jax.jacfwd(lambda v: system.force(t, q, v))(v),
            moved(lambda q: system.constraint_force(t, q, multipliers)),
        )

    for a, b in zip(evaluated(found, q, v), evaluated(expected, q, v), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-9, atol=1e-9 * np.max(np.abs(b)))
    problem = model.problem("SE3", t1=0.05, h=1e-3)
    solution = ph.simulate(problem)
    residuals = jax.vmap(problem.system.residuals)(solution.t, solution.state)
    assert np.max(residuals["position"]) < 1e-10
    energy = np.asarray(solution.outputs["kinetic_energy"] + solution.outputs["potential_energy"])
    moving = np.max(np.asarray(solution.outputs["kinetic_energy"]))
    assert moving > 5e-4
    assert np.max(energy) - energy[0] < 0.01 * moving


@pytest.mark.exhaustive
def test_a_slider_crank_moves_as_in_another_frame():
    problem = ph.problems.get("flexible-slider-crank")
    places, bent = motion(problem.parameters, np.linspace(0.0, 0.002, 3))
    assert np.max(np.abs(bent)) > 4e-4
    for h, allowed in ((2e-5, 4e-6), (1e-5, 1e-6)):
        run = ph.simulate(problem, h=h, t1=0.002)
        every = round(1e-3 / h)
        # Frames differ by squares of deformations, here about 1e-6.
        np.testing.assert_allclose(run.outputs["deflection"][::every], bent, atol=allowed)
        np.testing.assert_allclose(run.outputs["slider"][::every], places, atol=5 * allowed)
    with pytest.raises(ValueError, match="longer than the crank"):
        ph.problems.get("flexible-slider-crank", rod_length=0.1)


# --- a free body ----------------------------------------------------------------------------------------------------


def tumbling_model(**options: Any) -> ph.Problem:
    """A slack beam without gravity, turning about all axes while it vibrates."""
    slack = Beam(modulus=4e5, shear=1.6e5, density=1000.0, moment=2e-8, torsion=4e-8)
    part = reduced(slack, interfaces=(), modes=4)
    model = ph.Model()
    model.add_flexible(
        part,
        name="beam",
        angular_velocity=(2.0, 1.0, -0.7),
        velocity=(0.3, 0.0, 0.1),
        amplitudes=0.004 * np.arange(1, 5),
        rates=(0.02, 0.0, -0.02, 0.01),
    )
    return model.problem("S3xR3", t1=0.4, h=0.01, integrator="rkmk4", **options)


def measure(solution: ph.Solution) -> dict[str, np.ndarray]:
    (((_, _), amplitudes),), v = solution.state
    eta, v = np.asarray(amplitudes)[-1, 0], np.asarray(v)[-1]
    return {"attitude": np.asarray(solution.outputs["rotations"])[-1, 0], "velocity": v[:6], "amplitudes": eta}


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("method", "order"), [pytest.param("rkmk4", 4, marks=pytest.mark.exhaustive), ("generalized-alpha", 2)]
)
def test_a_tumbling_body_converges_and_keeps_its_invariants(method, order):
    problem = tumbling_model()
    reference = measure(ph.simulate(problem, "rkmk4", h=0.4 / 640))
    assert set(problem.invariants) == {"energy", "linear_momentum", "angular_momentum"}
    steps = [0.4 / n for n in ((40, 80) if order == 4 else (80, 160))]
    runs = [ph.simulate(problem, method, h=h) for h in steps]
    for name, value in reference.items():
        errors = [np.max(np.abs(measure(run)[name] - value)) for run in runs]
        assert abs(np.log2(errors[0] / errors[1]) - order) < 0.3, (name, errors)
    for name, invariant in problem.invariants.items():
        values = [np.asarray(jax.vmap(invariant)(run.t, run.state)) for run in runs]
        drift = [np.max(np.abs(value - value[0])) for value in values]
        assert drift[1] < max(1e-12, 1.3 * 0.5**order * drift[0]), (name, drift)


class WithoutCoriolis(FloatingFrame):
    """The same body without the Coriolis forces among its modes."""

    def _swirl(self, omega):
        return 0.0 * super()._swirl(omega)


@pytest.mark.exhaustive
def test_without_coriolis_forces_energy_is_lost():
    problem = tumbling_model()
    (group,) = problem.system.coordinates.bodies
    wrong = WithoutCoriolis(group.formulation.frame, group.formulation.modal)
    bodies = (dataclasses.replace(group, formulation=wrong),)
    coordinates = dataclasses.replace(problem.system.coordinates, bodies=bodies)
    false = dataclasses.replace(problem, system=dataclasses.replace(problem.system, coordinates=coordinates))
    drifts = []
    for one in (problem, false):
        energy = jax.vmap(one.invariants["energy"])
        run = ph.simulate(one, h=0.4 / 160)
        values = np.asarray(energy(run.t, run.state))
        drifts.append(np.max(np.abs(values - values[0])))
    assert drifts[1] > 1e3 * drifts[0]


@pytest.mark.exhaustive
def test_symplectic_methods_take_free_bodies():
    problem = tumbling_model()
    run = ph.simulate(problem, "symplectic", h=0.01)
    reference = measure(ph.simulate(problem, "rkmk4", h=0.4 / 320))
    assert np.max(np.abs(measure(run)["amplitudes"] - reference["amplitudes"])) < 1e-2


# --- how models take them -------------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_stiff_modes_bound_explicit_steps():
    system, state = cantilever()[0].assemble("SO3xR3")
    found = stability_limit(system, 0.0, state)
    highest = ph.modes(system, state).frequencies[-1]
    assert found.frequency == pytest.approx(highest, rel=1e-6)
    assert found.bodies == ("beam",)
    problem = cantilever()[0].problem(t1=0.1)
    assert (problem.integrator, problem.parameters["formulation"]) == ("generalized-alpha", "SO3xR3")


@pytest.mark.exhaustive
def test_gradients_go_to_elastic_data():
    part = reduced(SOFT, modes=0)

    def tip(factor):
        model = ph.Model(gravity=(0, 0, -9.81))
        body = model.add_flexible(part.scaled(stiffness=factor))
        model.add(ph.joints.Revolute(model.ground, body.node("root"), point=(0, 0, 0), axis=(0, 1, 0)))
        problem = model.problem("SO3xR3", t1=0.01, integrator="generalized-alpha")
        return ph.simulate(problem).outputs["positions"][-1, 2, 2]

    slope = jax.grad(tip)(1.0)
    by_differences = (tip(1.001) - tip(0.999)) / 0.002
    np.testing.assert_allclose(slope, by_differences, rtol=1e-5)
    assert abs(slope) > 1e-5


def test_what_models_refuse():
    model, body = cantilever()
    for formulation in ("livens", "separable", "euler-angles", "euler-parameters"):
        with pytest.raises(ValueError, match=r"deforms, and .* Flexible bodies take 'SO3xR3'"):
            model.assemble(formulation)
    with pytest.raises(ValueError, match=r"must name a node of FlexibleBody\('beam', \d+ modes\).* root, tip"):
        model.add(ph.forces.PointForce(body, (0, 0, 1.0)))
    with pytest.raises(ValueError, match="Did you mean `tip`"):
        body.node("top")
    with pytest.raises(ValueError, match="`amplitudes` must be"):
        model.add_flexible(reduced(BEAM, modes=0), amplitudes=(1.0,))
    with pytest.raises(ValueError, match="`part` must come from"):
        model.add_flexible(np.eye(3))
    with pytest.raises(ValueError, match="not a body of this model"):
        cantilever()[0].add(ph.forces.PointForce(body.node("tip"), (0, 0, 1.0)))
    corners = np.array([[0, 0, 0], [1.0, 0, 0], [0, 1.0, 0], [0, 0, 1.0]])
    with pytest.raises(ValueError, match="lies on a line"):
        ph.flexible.from_modes(BEAM.points(2), np.ones(3), np.ones((3, 3, 1)), [1.0], nodes={"end": 0})
    points = ph.flexible.from_modes(corners, np.ones(4), corners[:, :, None], [3.0], nodes={"end": 0})
    joined = ph.Model()
    end = joined.add_flexible(points).node("end")
    with pytest.raises(ValueError, match="needs the rotation"):
        joined.add(ph.joints.Revolute(joined.ground, end, point=(0, 0, 0), axis=(0, 1, 0)))
    joined.add(ph.joints.Spherical(joined.ground, end, point=(0, 0, 0)))
    with pytest.raises(ValueError, match="deform"):
        ph.simulate(cantilever()[0].problem(t1=0.01), "eml")


def test_a_file_without_them_says_so():
    with pytest.warns(ph.importers.ModelFileWarning, match="flexible body `beam`") as caught:
        text = cantilever()[0].to_mjcf()
    assert "Fixed `clamp`: it is on a body that the file lacks" in str(caught[0].message)
    assert "<worldbody />" in text
