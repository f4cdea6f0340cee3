"""The generalized-α method: published digits, orders, iterations, failure, control, derivatives."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import compiled, evaluated

import polhode as ph
from polhode.integrators.base import Carry
from polhode.integrators.implicit.generalized_alpha import GeneralizedAlpha, Memory
from polhode.result_codes import Result
from polhode.simulation.stepping.step_control import StepControl
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.spaces.rigid import S3R3, SE3, AbstractRigidGroup
from polhode.spaces.rotations import S3, SO3, RotationVector
from polhode.systems.mechanical import Mechanical
from polhode.systems.vector_field import VectorField

INERTIA, MASS, CENTRE = np.array([0.234375, 0.46875, 0.234375]), 15.0, np.array([0.0, 1.0, 0.0])
WEIGHT = MASS * np.array([0.0, 0.0, -9.81])
SPACES = {
    "SO3xR3": product(SO3(), Rn(3)),
    "S3xR3": product(S3(), Rn(3)),
    "rotation-vector": product(RotationVector(), Rn(3)),
    "SE3": SE3(),
    "S3|xR3": S3R3(),
}
STAGED = [name if name in ("SO3xR3", "SE3") else pytest.param(name, marks=pytest.mark.exhaustive) for name in SPACES]


def heavy_top(formulation: str, omega: Any = (0.0, 150.0, -4.61538)) -> tuple[Mechanical, Any]:
    """The top held at the origin by three constraints, and its consistent initial state."""
    space = SPACES[formulation]
    body_fixed = isinstance(space, AbstractRigidGroup)
    rotations = space.rotations if body_fixed else space.spaces[0]

    def force(t: Any, q: Any, v: Any) -> Any:
        omega, u = v[:3], v[3:]
        weight = jnp.asarray(WEIGHT)
        if body_fixed:
            weight = rotations.Ad_dual(q[0], weight) - MASS * jnp.cross(omega, u)
        return jnp.concatenate((-jnp.cross(omega, INERTIA * omega), weight))

    def pin(t: Any, q: Any) -> Any:
        return rotations.Ad_dual(q[0], q[1]) - CENTRE if body_fixed else q[1] - rotations.Ad(q[0], jnp.asarray(CENTRE))

    mass = np.diag([*INERTIA, MASS, MASS, MASS])
    system = Mechanical(space, lambda q: jnp.asarray(mass), force, pin, 3)
    start = jnp.asarray(np.concatenate((omega, np.cross(omega, CENTRE))))
    return system, ((rotations.origin(), jnp.asarray(CENTRE)), start)


def pendulum(weight: Any = 9.81, stiffness: Any = 0.0, length: Any = 1.0) -> Mechanical:
    """A point mass in the plane on a rod, with a spring to the point (2, 0)."""

    def force(t: Any, q: Any, v: Any) -> Any:
        return stiffness * (jnp.array([2.0, 0.0]) - q) - jnp.array([0.0, 1.0]) * weight

    return Mechanical(Rn(2), jnp.eye(2), force, lambda t, q: (q @ q - length**2)[None], 1)


AT_REST = (jnp.array([1.0, 0.0]), jnp.zeros(2))


def run(system: Any, state: Any, method: GeneralizedAlpha, t1: float = 1.0, **how: Any) -> Any:
    return ph.simulate(system, method, t0=0.0, t1=t1, state0=state, **{"save_every": None, **how})


def test_the_heavy_top_reaches_the_published_point_in_two_iterations_a_step() -> None:
    system, state = heavy_top("SO3xR3")
    end = run(system, state, GeneralizedAlpha(rho_inf=0.9, predictor="zero"), h=1e-4)
    np.testing.assert_allclose(end.state[0][1][-1], [0.17333694, 0.64003454, -0.74853864], rtol=0, atol=5e-9)
    assert end.stats["newton_iterations"] == 2.0
    assert end.residuals["position"][-1] < 1e-12
    # Index 3 leaves the velocities off the constraint: the control of the test of the other formulation.
    assert end.residuals["velocity"][-1] > 1e-5


@pytest.mark.exhaustive
def test_iterations_follow_the_tangent_operator_and_the_kind_of_newton() -> None:
    system, state = heavy_top("SO3xR3")

    def iterations(h: float, **options: Any) -> float:
        return run(system, state, GeneralizedAlpha(predictor="zero", rtol=1e-8, **options), h=h).stats[
            "newton_iterations"
        ]

    steps = (1e-4, 5e-5, 2.5e-5, 1.25e-5)
    assert [iterations(h, tangent_operator=False) for h in steps] == [4.0, 4.0, 3.0, 3.0]
    assert [iterations(h) for h in steps] == [2.0, 2.0, 2.0, 2.0]
    assert all(6.0 < iterations(h, newton="modified") < 8.5 for h in steps)


def errors(formulation: str, method: GeneralizedAlpha, counts: tuple[int, ...], frames: int = 8) -> np.ndarray:
    """Largest errors of position, velocity and multipliers on [0, 1] of a tumbling top."""
    omega = np.array([2.0, 6.0, -3.0])
    about_pin = INERTIA + MASS * (CENTRE @ CENTRE - CENTRE**2)

    def field(t: Any, y: Any) -> Any:
        R, w = y
        moment = jnp.cross(CENTRE, R.T @ WEIGHT) - jnp.cross(w, about_pin * w)
        return jnp.concatenate((w, moment / about_pin))

    times = np.linspace(0.0, 1.0, frames + 1)
    start = (jnp.eye(3), jnp.asarray(omega))
    exact = ph.simulate(VectorField(product(SO3(), Rn(3)), field), "rkmk6", h=2e-3, t1=1.0, state0=start, save_at=times)
    R, w = map(np.asarray, exact.state)
    system, state = heavy_top(formulation, omega)
    body_fixed = isinstance(system.space, AbstractRigidGroup)
    rotations = system.space.rotations if body_fixed else system.space.spaces[0]
    u = np.cross(w, CENTRE)
    v = np.concatenate((w, u if body_fixed else np.einsum("nij,nj->ni", R, u)), axis=1)
    q = (jax.vmap(lambda R: rotations.from_quaternion(S3().from_quaternion(SO3().to_quaternion(R))))(R), R @ CENTRE)
    multipliers = np.asarray(evaluated(jax.vmap(lambda q, v: system.accelerations(jnp.zeros(()), q, v)[1]), q, v))
    result = []
    for n in counts:
        end = run(system, state, method, h=1 / n, save_every=n // frames)
        position = end.state[0][1] - R @ CENTRE
        result.append([np.abs(e).max() for e in (position, end.state[1][1:] - v[1:], end.multipliers - multipliers)])
    return np.array(result)


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize("formulation", STAGED)
def test_order_two_of_positions_velocities_and_multipliers_of_the_top(formulation: str) -> None:
    result = errors(formulation, GeneralizedAlpha(start="perturbed"), (128, 256, 512))
    np.testing.assert_allclose(np.log2(result[1:-1] / result[2:]), 2.0, atol=0.05)


@pytest.mark.exhaustive
@pytest.mark.parametrize("rho_inf", [0.0, 1.0])
def test_order_two_at_the_limits_of_damping(rho_inf: float) -> None:
    result = errors("SO3xR3", GeneralizedAlpha(rho_inf=rho_inf, start="perturbed"), (256, 512))
    np.testing.assert_allclose(np.log2(result[0] / result[1]), 2.0, atol=0.1)


@pytest.mark.exhaustive
def test_the_plain_start_disturbs_the_first_multipliers() -> None:
    disturbed = errors("SO3xR3", GeneralizedAlpha(start="acceleration"), (128, 256))
    clean = errors("SO3xR3", GeneralizedAlpha(start="perturbed"), (128, 256))
    assert (disturbed[:, 2] > 10 * clean[:, 2]).all()
    np.testing.assert_allclose(disturbed[:, :2], clean[:, :2], rtol=0.02)


@pytest.mark.exhaustive
def test_stabilisation_keeps_both_constraints_where_index_3_keeps_one() -> None:
    def parabola(t: Any, q: Any) -> Any:
        return (q[1] - q[0] * q[0] - jnp.sin(t))[None]

    # A bead on a wire that moves up and down.
    moving = Mechanical(Rn(2), jnp.eye(2), lambda t, q, v: jnp.array([0.0, -1.0]), parabola, 1)
    state = (jnp.zeros(2), jnp.array([0.5, 1.0]))
    both = run(moving, state, GeneralizedAlpha(constraint="stabilized-index-2"), h=0.01)
    one = run(moving, state, GeneralizedAlpha(), h=0.01)
    assert both.residuals["position"].max() < 1e-10
    assert both.residuals["velocity"].max() < 1e-10
    assert one.residuals["position"].max() < 1e-10
    assert one.residuals["velocity"].max() > 1e-6
    np.testing.assert_allclose(both.state[0][-1], one.state[0][-1], atol=1e-3)


def test_energy_is_damped_by_rho_inf_0_and_kept_by_rho_inf_1() -> None:
    oscillator = Mechanical(Rn(1), jnp.eye(1), lambda t, q, v: -q)
    state = (jnp.ones(1), jnp.zeros(1))

    def energy(rho_inf: float) -> float:
        end = run(oscillator, state, GeneralizedAlpha(rho_inf=rho_inf), t1=100.0, h=0.5)
        assert end.multipliers is None
        return float(end.state[0][-1, 0] ** 2 + end.state[1][-1, 0] ** 2)

    assert energy(1.0) == pytest.approx(1.0, abs=0.05)
    assert energy(0.0) < 0.5


@pytest.mark.exhaustive
def test_modified_newton_reaches_the_same_solution_with_more_iterations() -> None:
    tight = {"rtol": 1e-13, "atol": 1e-14}
    full = run(pendulum(), AT_REST, GeneralizedAlpha(**tight), h=0.01)
    modified = run(pendulum(), AT_REST, GeneralizedAlpha(newton="modified", **tight), h=0.01)
    np.testing.assert_allclose(modified.state[0][-1], full.state[0][-1], atol=1e-11)
    assert modified.stats["newton_iterations"] > full.stats["newton_iterations"]


def test_tolerances_control_the_error_and_shorten_steps_that_newton_rejects() -> None:
    method = GeneralizedAlpha(constraint="stabilized-index-2")
    control = StepControl(first_step=1.0)
    exact = run(pendulum(), AT_REST, method, h=1e-4).state[0][-1]
    ends = [run(pendulum(), AT_REST, method, rtol=tol, atol=tol, control=control) for tol in (1e-4, 1e-7)]
    coarse, fine = (np.abs(end.state[0][-1] - exact).max() for end in ends)
    assert coarse < 2e-2
    assert fine < coarse / 30
    assert 4 < ends[1].stats["steps"] / ends[0].stats["steps"] < 20
    assert ends[0].stats["rejected"] > 0


def controlled_arm() -> Mechanical:
    """Two angles, held against the weight of their links by a stiff controller."""

    def mass(q: Any) -> Any:
        across = 0.054 + 0.1 * jnp.cos(q[1])
        return jnp.array([[0.401 + 0.2 * jnp.cos(q[1]) + 0.054, across], [across, 0.054]])

    def force(t: Any, q: Any, v: Any) -> Any:
        second = 1.962 * jnp.cos(q[0] + q[1])
        return 200 * (jnp.array([0.6, 0.8]) - q) - 20 * v - jnp.stack((9.81 * jnp.cos(q[0]) + second, second))

    return Mechanical(Rn(2), mass, force)


@pytest.mark.parametrize("predictor", ["extrapolated", "zero"])
def test_where_nothing_moves_any_more_round_off_is_not_iterated_on(predictor: Any) -> None:
    """At rest all accelerations are round-off, and positions no longer answer to corrections."""
    method = GeneralizedAlpha(predictor=predictor)
    end = run(controlled_arm(), (jnp.zeros(2), jnp.zeros(2)), method, t1=8.0, h=2e-3)
    assert end.stats["newton_iterations"] < 2
    q = end.state[0][-1]
    np.testing.assert_allclose(evaluated(controlled_arm().force, 0.0, q, jnp.zeros(2)), 0.0, atol=1e-11)


@pytest.mark.exhaustive
def test_the_extrapolated_predictor_saves_iterations_and_leads_to_the_same_motion() -> None:
    system, state = heavy_top("SO3xR3")
    ends = [run(system, state, GeneralizedAlpha(predictor=name), t1=0.1, h=2e-5) for name in ("extrapolated", "zero")]
    assert ends[0].stats["newton_iterations"] < ends[1].stats["newton_iterations"] - 0.9
    for one, other in zip(*map(jax.tree.leaves, (ends[0].state, ends[1].state)), strict=True):
        np.testing.assert_allclose(one[-1], other[-1], rtol=1e-10, atol=1e-10)


def test_the_extrapolated_predictor_is_a_parabola() -> None:
    """Behind 60 steps, in which the start decays, a mass under the force 3 - 2 t + 5 t² has its second derivative."""
    force = lambda t, q, v: (3 - 2 * t + 5 * t * t) * jnp.ones(1)  # noqa: E731
    system = Mechanical(Rn(1), jnp.eye(1), force)
    method, h = GeneralizedAlpha(rho_inf=0.5), 0.1

    def end(carry: Any) -> Any:
        march = lambda k, carry: method.step(system, h * k, jnp.asarray(h), carry)[0]  # noqa: E731
        return jax.lax.fori_loop(0, 60, march, carry)

    memory = jax.jit(end)(method.init(system, jnp.zeros(()), jnp.asarray(h), (jnp.zeros(1), jnp.zeros(1)))).memory
    np.testing.assert_allclose(memory.bend, 10.0, rtol=1e-9)
    np.testing.assert_allclose(method.extrapolate(memory, jnp.asarray(h)), 3 - 2 * 6.1 + 5 * 6.1**2, rtol=1e-9)


def test_newton_that_fails_gives_a_code_and_keeps_what_was_computed() -> None:
    end = run(pendulum(), AT_REST, GeneralizedAlpha(), t1=5.0, h=1.0, throw=False, save_every=1)
    assert end.stats["result"] == Result.newton_not_converged
    assert np.isfinite(end.state[0]).all()
    with pytest.raises(ph.SimulationError, match="newton_not_converged"):
        run(pendulum(), AT_REST, GeneralizedAlpha(), t1=5.0, h=1.0)


def test_redundant_constraints_are_called_singular() -> None:
    twice = Mechanical(Rn(2), jnp.eye(2), lambda t, q, v: jnp.ones(2), lambda t, q: jnp.stack((q[0], 2 * q[0])), 2)
    end = run(twice, (jnp.zeros(2), jnp.zeros(2)), GeneralizedAlpha(), h=0.1, throw=False)
    assert end.stats["result"] == Result.singular_constraints


@pytest.mark.exhaustive
def test_derivatives_are_those_of_the_solution_with_other_options() -> None:
    options: dict[str, Any] = {"newton": "modified", "constraint": "stabilized-index-2"}

    def final(p: Any) -> Any:
        weight, length, speed = p
        state = (jnp.stack((length, 0.0 * length)), jnp.stack((0.0 * speed, speed)))
        end = run(pendulum(weight, 3.0, length), state, GeneralizedAlpha(**options), t1=0.2, h=0.02)
        return end.state[0][-1] @ jnp.array([1.0, 2.0])

    p = jnp.array([9.81, 1.3, 0.7])
    gradient, one = evaluated(lambda p: (jax.grad(final)(p), jax.jvp(final, (p,), (jnp.ones(3),))[1]), p)
    value = compiled(final, p)
    steps = 1e-5 * np.eye(3)
    central = [(value(p + e) - value(p - e)) / 2e-5 for e in steps]
    np.testing.assert_allclose(gradient, central, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(one, np.sum(gradient), rtol=1e-12)


@pytest.mark.exhaustive
def test_interpolation_is_of_fourth_order_and_stays_on_the_space() -> None:
    system = Mechanical(SO3(), jnp.eye(3), lambda t, q, v: 0 * v)
    axis = jnp.array([1.0, 2.0, 2.0]) / 3

    def carry(t: Any) -> Carry:
        rotation = SO3().exp(jnp.sin(t) * axis)
        return Carry((rotation, jnp.cos(t) * axis), Memory(-jnp.sin(t) * axis, *(0 * axis,) * 3, jnp.zeros(()), None))

    def compare(h: Any) -> Any:
        t = jnp.asarray(0.4)
        q, v = GeneralizedAlpha().interpolate(system, t, h, carry(t), carry(t + h), jnp.asarray(0.3))
        there = carry(t + 0.3 * h).state
        return jnp.stack((jnp.abs(q - there[0]).max(), jnp.abs(v - there[1]).max())), system.configuration.residual(q)

    run = compiled(compare, 0.2)

    def error(h: float) -> np.ndarray:
        result, residual = run(h)
        assert residual < 1e-14
        return np.asarray(result)

    np.testing.assert_allclose(np.log2(error(0.2) / error(0.1)), 4.0, atol=0.2)


def test_promises_name_what_each_formulation_keeps() -> None:
    assert "velocity" not in GeneralizedAlpha().promises
    assert GeneralizedAlpha(constraint="stabilized-index-2").promises["velocity"] == "newton"


class _QuasiVelocities(Mechanical):
    @property
    def identity_kinematics(self) -> bool:
        return False


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"rho_inf": 1.5}, "rho_inf"),
        ({"rho_inf": "0.9"}, "rho_inf` must be"),
        ({"tangent_operator": "no"}, "tangent_operator` must be"),
        ({"max_iterations": 2.5}, "max_iterations` must be"),
        ({"newton": "lazy"}, "newton"),
        ({"constraint": "index-1"}, "constraint"),
        ({"start": "cold"}, "start"),
        ({"rtol": 0.0, "atol": 0.0}, "not both zero"),
        ({"max_iterations": 0}, "max_iterations"),
    ],
)
def test_wrong_options_are_explained(options: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ph.integrators.get("generalized-alpha", **options)


def test_quasi_velocities_are_refused_before_anything_runs() -> None:
    system = _QuasiVelocities(Rn(1), jnp.eye(1), lambda t, q, v: -q)
    with pytest.raises(ValueError, match="quasi-velocities"):
        run(system, (jnp.ones(1), jnp.zeros(1)), GeneralizedAlpha(), h=0.1)
