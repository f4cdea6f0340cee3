"""Rolling discs and balls, and knife edges: nonholonomic constraints in all kinds of methods."""

from __future__ import annotations

import dataclasses
import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from rolling_reference import TUMBLING, Disc, Sleigh

import polhode as ph
from polhode.multibody.system import MultibodySystem

DISC, SLEIGH = Disc(), Sleigh()
LATER = 1.0

slow = pytest.mark.exhaustive

METHODS = [
    pytest.param("herk2", {}, (2, 2, 2), id="herk2", marks=slow),
    pytest.param("herk3", {}, (3, 3, 3), id="herk3", marks=slow),
    pytest.param("herk4", {}, (4, 4, 4), id="herk4"),
    pytest.param("herk5", {}, (5, 5, 5), id="herk5", marks=slow),
    pytest.param("generalized-alpha", {"start": "perturbed"}, (2, 2, 2), id="index-3"),
    pytest.param(
        "generalized-alpha",
        {"start": "perturbed", "constraint": "stabilized-index-2"},
        (2, 2, 2),
        id="index-2",
        marks=slow,
    ),
    pytest.param("bdf", {"max_order": 3}, (3, 3, 3), id="bdf3"),
    pytest.param("bdf", {}, (5, 5, 5), id="bdf5", marks=slow),
    pytest.param("eml", {}, (2, 2, 2), id="eml", marks=slow),
]


def run(model: ph.Model, method: str, h: float, t1: float = LATER, form: str = "SO3xR3", **options):
    problem = model.problem(form, t1=t1, h=h)
    return ph.simulate(problem, integrator=ph.integrators.get(method, **options))


def last(solution, name: str) -> np.ndarray:
    return np.asarray(solution.outputs[name])[-1, 0]


def largest(solution, name: str) -> float:
    return float(np.max(np.asarray(solution.residuals[name])))


def spread(values) -> float:
    return float(np.ptp(np.asarray(values)))


# --- the rolling disc -----------------------------------------------------------------------------------------------


def disc_errors(method: str, options: dict, h: float) -> np.ndarray:
    """Of attitude and place, of velocities, and of multipliers."""
    end = DISC.after(TUMBLING, LATER)
    R, x, omega, u = DISC.motion(end)
    solution = run(DISC.model(TUMBLING), method, h, **options)
    multipliers, reference = np.asarray(solution.multipliers)[-1, :3], DISC.multipliers(end)
    if method == "eml":
        # Averages over steps; two of them are that of the instant between.
        multipliers = 0.5 * (multipliers + np.asarray(solution.multipliers)[-2, :3])
        reference = DISC.multipliers(DISC.after(TUMBLING, LATER - h))
    places = np.concatenate(((last(solution, "rotations") - R).reshape(-1), last(solution, "positions") - x))
    rates = np.concatenate((last(solution, "angular_velocities") - omega, last(solution, "velocities") - u))
    return np.array([np.max(np.abs(part)) for part in (places, rates, multipliers - reference)])


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.parametrize(("method", "options", "orders"), METHODS)
def test_a_tumbling_disc_converges_to_its_reduced_equations(method, options, orders):
    coarse, fine = (disc_errors(method, options, h) for h in (1 / 120, 1 / 240))
    assert np.all(fine < 2e-3)
    assert np.all(np.log2(coarse / fine) > np.array(orders) - 0.25)
    assert np.all(np.log2(coarse / fine) < np.array(orders) + 0.5)


@pytest.mark.exhaustive
def test_a_disc_keeps_its_lean_and_goes_round_in_a_circle():
    """Steady motion: the lean satisfies one equation, and the centre goes round with ψ̇ on the radius of its speed."""
    theta, omega2 = 1.0, 2.0
    start = np.array([theta, 0.0, 0.0, 0.0, omega2, DISC.steady(theta, omega2), 0.0, 0.0, DISC.r * math.sin(theta)])
    solution = run(DISC.model(start), "herk4", 0.01, t1=2.0)
    x, R = np.asarray(solution.outputs["positions"])[:, 0], np.asarray(solution.outputs["rotations"])[:, 0]
    np.testing.assert_allclose(R[:, 2, 2], math.cos(theta), atol=1e-6)
    np.testing.assert_allclose(x[:, 2], DISC.r * math.sin(theta), atol=1e-6)
    # From the start along -ω₃ r e₁ and round to the left where that is positive.
    speed, turning = -DISC.r * start[5], omega2 / math.sin(theta)
    phase = turning * np.asarray(solution.t)
    circle = speed / turning * np.stack((np.sin(phase), 1 - np.cos(phase)), axis=1)
    np.testing.assert_allclose(x[:, :2], circle, atol=1e-6)


@pytest.mark.parametrize(
    "method", [pytest.param("herk3", marks=slow), "generalized-alpha", pytest.param("eml", marks=slow)]
)
@pytest.mark.exhaustive
def test_an_upright_disc_rolls_straight(method):
    start = np.array([math.pi / 2, 0.0, 0.0, 0.0, 0.0, -3.0, 0.0, 0.0, DISC.r])
    solution = run(DISC.model(start), method, 0.05)
    x = np.asarray(solution.outputs["positions"])[:, 0]
    along = 3.0 * DISC.r * np.asarray(solution.t)
    np.testing.assert_allclose(x, np.stack((along, 0 * along, 0 * along + DISC.r), axis=1), atol=1e-12)


@slow
@pytest.mark.parametrize("form", ["SE3", "S3|xR3", "rotation-vector", "euler-angles", "euler-parameters", "minimal"])
@pytest.mark.parametrize("method", ["herk4", "generalized-alpha", "bdf"])
def test_discs_roll_in_all_coordinates(form, method):
    end = DISC.motion(DISC.after(TUMBLING, LATER))
    solution = run(DISC.model(TUMBLING), method, 1 / 160, form=form)
    allowed = 5e-7 if method == "herk4" else 1e-3
    np.testing.assert_allclose(last(solution, "rotations"), end[0], atol=allowed)
    np.testing.assert_allclose(last(solution, "velocities"), end[3], atol=allowed)


@slow
def test_quasi_velocities_roll_too():
    end = DISC.motion(DISC.after(TUMBLING, LATER))
    solution = run(DISC.model(TUMBLING), "herk4", 1 / 160, form="euler-angles-kinematic")
    np.testing.assert_allclose(last(solution, "rotations"), end[0], atol=5e-7)


@slow
@pytest.mark.parametrize("joints", ["invariant", "vector"])
def test_energy_momentum_steps_keep_the_energy_of_a_disc(joints):
    problem = DISC.model(TUMBLING).problem("livens", joints=joints, t1=5.0, h=0.02)
    solution = ph.simulate(problem)
    assert spread(solution.invariants["energy"]) < 2e-12
    assert largest(solution, "position") < 1e-14
    if joints == "invariant":
        assert largest(solution, "velocity") < 1e-11
    R = DISC.motion(DISC.after(TUMBLING, 5.0))[0]
    np.testing.assert_allclose(last(solution, "rotations"), R, atol=0.02)


class Blind(MultibodySystem):
    """A system that doesn't know which of its constraints hold velocities only."""

    @property
    def nonholonomic(self) -> np.ndarray:
        return np.zeros(0, int)


def rates_of_index_3(kind: type[MultibodySystem]) -> np.ndarray:
    """|B v| of every frame, row by row: of the gap, ahead and to the left."""
    rates = lambda system: {"rates": lambda t, state: system.constraint_rate(t, *state)}  # noqa: E731
    problem = DISC.model(TUMBLING).problem("SO3xR3", t1=0.3, h=0.01, outputs=rates)
    fields = {field.name: getattr(problem.system, field.name) for field in dataclasses.fields(problem.system)}
    solution = ph.simulate(dataclasses.replace(problem, system=kind(**fields)), "generalized-alpha")
    assert largest(solution, "position") < 1e-12
    return np.abs(np.asarray(solution.outputs["rates"]))


@pytest.mark.exhaustive
def test_steps_of_index_3_do_not_slip():
    """Positions are closed, and of the rates those that are nobody's derivative vanish; that of the gap needn't."""
    rates = rates_of_index_3(MultibodySystem)
    assert np.max(rates[:, 1:]) < 1e-10
    assert np.max(rates[:, 0]) > 1e-6


@slow
def test_rows_without_positions_leave_steps_of_index_3_free_to_slip():
    """Control: were they taken for holonomic ones, whose Φ is always zero, nothing would hold the disc."""
    assert np.max(rates_of_index_3(Blind)[:, 1:]) > 0.01


# --- Chaplygin's sleigh ---------------------------------------------------------------------------------------------


def sleigh_errors(method: str, options: dict, h: float, form: str = "SO3xR3") -> np.ndarray:
    """Of the heading, of velocities, and of the force on the edge."""
    turned, v, omega = SLEIGH.at(2.0)
    solution = run(SLEIGH.model(), method, h, t1=2.0, form=form, **options)
    R, u = last(solution, "rotations"), last(solution, "velocities")
    heading = np.array([math.cos(turned), math.sin(turned), 0.0])
    force, reference = np.asarray(solution.multipliers)[-1], SLEIGH.multiplier(2.0)
    row = 0 if form == "minimal" else 3
    if method == "eml":
        force = 0.5 * (force + np.asarray(solution.multipliers)[-2])
        reference = SLEIGH.multiplier(2.0 - h)
    across = np.array([-heading[1], heading[0], 0.0])
    velocity = max(np.max(np.abs(u - v * heading - SLEIGH.a * omega * across)), abs(last_turn(solution) - omega))
    return np.array([np.max(np.abs(R[:, 0] - heading)), velocity, abs(force[row] - reference)])


def last_turn(solution) -> float:
    return float(last(solution, "angular_velocities")[2])


@slow
@pytest.mark.parametrize(("method", "options", "orders"), METHODS)
def test_a_sleigh_converges_to_its_formula(method, options, orders):
    coarse, fine = (sleigh_errors(method, options, h) for h in (1 / 40, 1 / 80))
    assert np.all(fine < 2e-3)
    assert np.all(np.log2(coarse / fine) > np.array(orders) - 0.4)


@slow
def test_joint_coordinates_leave_the_edge_to_a_constraint():
    coarse, fine = (sleigh_errors("herk4", {}, h, "minimal") for h in (1 / 20, 1 / 40))
    assert np.all(fine < 1e-5)
    assert np.all(np.log2(coarse / fine) > 3.6)


@pytest.mark.exhaustive
def test_a_sleigh_keeps_its_energy_and_nothing_else():
    problem = SLEIGH.model().problem("SO3xR3", t1=2.0, h=0.05)
    solution = ph.simulate(problem, integrator="eml")
    assert set(solution.invariants) == {"energy"}
    assert spread(solution.invariants["energy"]) < 1e-13
    u, omega = (np.asarray(solution.outputs[name])[:, 0] for name in ("velocities", "angular_velocities"))
    # Across the edge the velocity of its point vanishes, and the momentum does change.
    assert np.max(np.ptp(u, axis=0)) > 1.0
    assert spread(omega[:, 2]) > 1.0
    turned, v, rate = SLEIGH.at(2.0)
    np.testing.assert_allclose(last(solution, "rotations")[:2, 0], (math.cos(turned), math.sin(turned)), atol=5e-3)
    np.testing.assert_allclose((np.linalg.norm(u[-1]), omega[-1, 2]), (math.hypot(v, SLEIGH.a * rate), rate), atol=5e-3)
    assert solution.audit()["velocity"].verdict == "kept"


@slow
def test_without_its_edge_the_plate_goes_straight():
    """Control: the same start without the constraint keeps momentum and rate of turn."""
    solution = run(SLEIGH.model(edge=False), "herk4", 0.05, t1=2.0)
    u = np.asarray(solution.outputs["velocities"])[:, 0]
    np.testing.assert_allclose(u, np.broadcast_to(u[0], u.shape), atol=1e-12)
    assert abs(last_turn(solution) - SLEIGH.at(2.0)[2]) > 0.5


# --- balls ----------------------------------------------------------------------------------------------------------


@slow
def test_a_ball_on_a_turntable_goes_round_with_two_sevenths_of_its_rate():
    """A homogeneous ball on a table that turns with Ω goes round with (2/7) Ω, wherever and however it starts."""
    rate, radius, x, u = 3.0, 0.1, np.array([0.4, 0.1]), np.array([0.2, -0.3])
    model = ph.Model(gravity=(0, 0, -9.81))
    table = model.add_body(mass=5.0, inertia=(1, 1, 2), angular_velocity=(0, 0, rate))
    model.add(ph.joints.Revolute(model.ground, table, point=(0, 0, 0), axis=(0, 0, 1)))
    model.add(ph.joints.PrescribedRotation(model.ground, table, axis=(0, 0, 1), angle=lambda t: rate * t))
    # u - r ω × ẑ = Ω × x at the lowest point.
    slip = rate * np.array([-x[1], x[0]]) - u
    omega = np.array([slip[1], -slip[0], 0.0]) / radius
    ball = model.add_body(
        mass=2.0,
        inertia=0.4 * 2.0 * radius**2 * np.ones(3),
        position=(*x, radius),
        velocity=(*u, 0),
        angular_velocity=omega,
    )
    model.add(ph.joints.RollingBall(table, ball, radius=radius, name="ball"))
    problem = model.problem("SO3xR3", t1=2.0, h=0.01)
    solution = ph.simulate(problem, integrator="herk5")
    w, phase = 2 / 7 * rate, 2 / 7 * rate * np.asarray(solution.t)
    # u̇ = w ẑ × u.
    sine, cosine = np.sin(phase) / w, (1 - np.cos(phase)) / w
    reference = x + np.stack((sine * u[0] - cosine * u[1], cosine * u[0] + sine * u[1]), axis=1)
    result = np.asarray(solution.outputs["positions"])[:, 1]
    np.testing.assert_allclose(result[:, :2], reference, atol=1e-6)
    np.testing.assert_allclose(result[:, 2], radius, atol=1e-9)
    load = problem.system.joint_multipliers(solution.t, solution.state[0], solution.multipliers)["ball"]
    np.testing.assert_allclose(load[:, 0], -2.0 * 9.81, rtol=1e-9)
    np.testing.assert_allclose(np.linalg.norm(load[:, 1:], axis=1), 2.0 * w * np.linalg.norm(u), rtol=1e-3)


# --- starts, redundancy, and what can't be --------------------------------------------------------------------------


def test_a_start_that_slips_is_refused_and_mended():
    model = DISC.model(TUMBLING, slip=(0.1, 0.0, 0.0))
    with pytest.raises(ValueError, match=r"initial velocities do not fit the joints: `rim`.*repair=True"):
        model.assemble("SO3xR3")
    system, (q, v) = model.assemble("SO3xR3", repair=True)
    assert isinstance(system, MultibodySystem)
    assert np.max(np.abs(system.violations(0.0, (q, v))[1])) < 1e-14
    assert np.max(np.abs(np.asarray(q[0][1][0]) - DISC.motion(TUMBLING)[1])) < 1e-12


def test_closing_a_gap_may_move_the_disc_sideways():
    """A disc in the air comes down to its plane, which no-slip displacements alone would not allow everywhere."""
    lifted = TUMBLING + np.array([0, 0, 0, 0, 0, 0, 0, 0, 0.01])
    system, state = DISC.model(lifted).assemble("SO3xR3", repair=True)
    assert isinstance(system, MultibodySystem)
    gaps, rates = system.violations(0.0, state)
    assert np.max(np.abs(gaps)) < 1e-11
    assert np.max(np.abs(rates)) < 1e-11


def test_edges_in_one_line_across_are_redundant():
    model = ph.Model()
    body = model.add_body(mass=1, inertia=(1, 1, 1), velocity=(1, 0, 0))
    model.add(ph.joints.Planar(model.ground, body, normal=(0, 0, 1)))
    for y in (-0.2, 0.2):
        model.add(ph.joints.KnifeEdge(model.ground, body, point=(0, y, 0), across=(0, 1, 0), name=f"edge {y}"))
    with pytest.raises(ValueError, match=r"`edge 0\.2` follow from `edge -0\.2`"):
        model.assemble("SE3")
    system, _ = model.assemble("SE3", redundant="minimum-norm")
    assert system.dropped == {"edge 0.2": (0,)}
    assert system.m == 4


@pytest.mark.exhaustive
def test_methods_without_a_place_for_them_say_so():
    rows = {row.name: row for row in ph.integrators.suited(SLEIGH.model().problem("SO3xR3", t1=1, h=0.1))}
    assert all(rows[name].suited for name in ("herk4", "generalized-alpha", "bdf", "eml", "rkmk4"))
    assert "hold velocities only" in rows["rattle"].reason
    assert "hold velocities only" in rows["mpl"].reason
    assert not any(rows[name].suited for name in ("rattle", "mpl", "symplectic", "rigid-verlet"))
    rows = {row.name: row for row in ph.integrators.suited(SLEIGH.model().problem("minimal", t1=1, h=0.1))}
    assert "hold velocities only" in rows["eml"].reason


def test_statics_are_refused():
    system, state = SLEIGH.model().assemble("SO3xR3")
    for f in (ph.equilibrium, ph.modes):
        with pytest.raises(ValueError, match="equilibria aren't isolated"):
            f(system, state)


def test_discs_must_have_a_lowest_point():
    model = ph.Model()
    disc = model.add_body(mass=1, inertia=(1, 1, 2))
    with pytest.raises(ValueError, match="lies flat"):
        ph.joints.RollingDisc(model.ground, disc, axis=(0, 0, 1), radius=1.0)
    with pytest.raises(ValueError, match="radius"):
        ph.joints.RollingDisc(model.ground, disc, axis=(0, 1, 0), radius=0.0)
    point = model.add_point(mass=1, position=(0, 0, 0))
    for make in (
        lambda: ph.joints.RollingDisc(model.ground, point, axis=(0, 1, 0), radius=1.0),
        lambda: ph.joints.RollingBall(model.ground, point, radius=1.0),
        lambda: ph.joints.KnifeEdge(model.ground, point, point=(0, 0, 0), across=(0, 1, 0)),
    ):
        with pytest.raises(ValueError, match="needs the rotation"):
            make()


# --- derivatives and rows ---------------------------------------------------------------------------------------------


@slow
@pytest.mark.parametrize("method", ["herk4", "generalized-alpha"])
def test_runs_are_differentiated_through_rolling(method):
    system, (q, v) = DISC.model(TUMBLING).assemble("SO3xR3")

    def lean(push):
        # A multiple of a velocity that the constraints allow.
        solution = ph.simulate(system, method, state0=(q, v * (1 + push)), t1=0.3, h=0.01)
        return solution.state[0][0][0][-1, 0, 2, 2]

    slope = jax.grad(lean)(jnp.asarray(0.0))
    step = 1e-5
    difference = (lean(jnp.asarray(step)) - lean(jnp.asarray(-step))) / (2 * step)
    assert abs(slope) > 0.1
    np.testing.assert_allclose(slope, difference, rtol=1e-6)


@slow
def test_many_discs_roll_row_by_row():
    """From 48 velocities on, elements are evaluated in a loop."""
    model = ph.Model(gravity=(0, 0, -DISC.g))
    R, x, omega, u = DISC.motion(TUMBLING)
    for k in range(9):
        away = np.array([0.0, 2.0 * k, 0.0])
        disc = model.add_body(
            mass=DISC.m,
            inertia=(DISC.A, DISC.A, DISC.C),
            position=x + away,
            rotation=R,
            velocity=u,
            angular_velocity=omega,
        )
        model.add(ph.joints.RollingDisc(model.ground, disc, axis=R[:, 2], radius=DISC.r))
    alone = run(DISC.model(TUMBLING), "herk4", 0.01, t1=0.5)
    together = run(model, "herk4", 0.01, t1=0.5)
    result = np.asarray(together.outputs["rotations"])[-1]
    np.testing.assert_allclose(result, np.broadcast_to(last(alone, "rotations"), result.shape), atol=1e-10)
