"""Floquet multipliers against closed forms and variational equations that SciPy integrates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp
from scipy.optimize import fsolve

import polhode as ph

G = 9.81


def flow(field: Callable[[float, Any], Any], start: Any, period: float) -> np.ndarray:
    return solve_ivp(field, (0, period), start, method="DOP853", rtol=1e-12, atol=1e-13).y[:, -1]


def equal(result: Any, expected: Any, atol: float) -> None:
    """Both have the same multipliers."""
    expected = np.asarray(expected)
    assert len(result) == len(expected)
    for one, others in ((result, expected), (expected, result)):
        assert max(float(np.min(np.abs(others - x))) for x in one) < atol, (result, expected)


# --- loads that depend on time --------------------------------------------------------------------------------------

LENGTH, INERTIA = 0.5, 1e-3


def shaken(amplitude: float, rate: float, upright: bool = False) -> ph.Model:
    """A pendulum whose pivot is moved up and down by a drive."""
    model = ph.Model(gravity=(0, 0, -G))
    slider = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), name="slider")
    height = LENGTH if upright else -LENGTH
    bob = model.add_body(mass=1.0, inertia=(INERTIA,) * 3, position=(0, 0, height), name="bob")
    model.add(ph.joints.Prismatic(model.ground, slider, point=(0, 0, 0), axis=(0, 0, 1)))
    model.add(
        ph.joints.PrescribedTranslation(
            model.ground, slider, axis=(0, 0, 1), displacement=lambda t: amplitude * (1 - jnp.cos(rate * t))
        )
    )
    model.add(ph.joints.Revolute(slider, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    return model


def mathieu(amplitude: float, rate: float, upright: bool = False) -> np.ndarray:
    k = LENGTH / (INERTIA + LENGTH**2) * (-1 if upright else 1)
    field = lambda t, y: [y[1], -k * (G + amplitude * rate**2 * np.cos(rate * t)) * y[0]]  # noqa: E731
    return np.linalg.eigvals(np.column_stack([flow(field, e, 2 * np.pi / rate) for e in np.eye(2)]))


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    ("formulation", "amplitude", "rate", "upright", "stable"),
    [
        ("minimal", 0.05, 80.0, True, True),  # Kapitza: a ω > √(2 g l)
        ("minimal", 0.05, 30.0, True, False),
        ("minimal", 0.1, 20.0, False, True),
        ("minimal", 0.05, 2 * np.sqrt(G / LENGTH), False, False),
        ("SO3xR3", 0.1, 20.0, False, True),
    ],
)
def test_a_shaken_pendulum_has_the_multipliers_of_mathieus_equation(
    amplitude: float, rate: float, upright: bool, stable: bool, formulation: str
) -> None:
    problem = shaken(amplitude, rate, upright).problem(formulation, t1=1.0)
    result = ph.floquet(problem, 2 * np.pi / rate)
    equal(result.multipliers, mathieu(amplitude, rate, upright), 1e-7)
    assert result.stable is stable
    with pytest.raises(ValueError, match=r"does not close after the period .* at `slider`"):
        ph.floquet(problem, 0.9 * 2 * np.pi / rate)


@pytest.mark.exhaustive
def test_coefficients_with_another_period_are_refused_although_the_state_rests() -> None:
    system = ph.systems.VectorField(ph.spaces.Rn(2), lambda t, y: jnp.stack([y[1], -(4.0 + jnp.sin(3.0 * t)) * y[0]]))
    field = lambda t, y: [y[1], -(4.0 + np.sin(3.0 * t)) * y[0]]  # noqa: E731
    period, rest = 2 * np.pi / 3, jnp.zeros(2)
    expected = np.column_stack([flow(field, e, period) for e in np.eye(2)])
    np.testing.assert_allclose(ph.floquet(system, period, state=rest).monodromy, expected, atol=1e-8)
    with pytest.raises(ValueError, match="give the period of the loads"):
        # The start looks the same half a period later.
        ph.floquet(system, period / 2, state=rest)


@pytest.mark.exhaustive
def test_loads_with_another_period_are_refused_although_the_bodies_rest() -> None:
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0), name="oscillator")
    pin = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 0, 1), name="pin"))
    model.add(ph.forces.JointControl([pin], lambda t, angle, rate: -(4.0 + jnp.sin(3.0 * t)) * angle))
    problem, period = model.problem("minimal", t1=1.0), 2 * np.pi / 3
    result = ph.floquet(problem, period)
    field = lambda t, y: [y[1], -(4.0 + np.sin(3.0 * t)) * y[0]]  # noqa: E731
    np.testing.assert_allclose(
        result.monodromy, np.column_stack([flow(field, e, period) for e in np.eye(2)]), atol=1e-8
    )
    with pytest.raises(ValueError, match="another period"):
        # The start looks the same half a period later.
        ph.floquet(problem, period / 2)


# --- motions that come back -----------------------------------------------------------------------------------------


@pytest.mark.exhaustive
def test_a_limit_cycle_is_as_stable_as_its_divergence_says() -> None:
    field = lambda t, y: [y[1], (1 - y[0] ** 2) * y[1] - y[0]]  # noqa: E731
    x, period = fsolve(lambda z: flow(field, [z[0], 0], z[1]) - [z[0], 0], [2.0, 6.66], xtol=1e-12)
    divergence = flow(lambda t, y: [*field(t, y[:2]), 1 - y[0] ** 2], [x, 0, 0], period)[2]
    system = ph.systems.VectorField(ph.spaces.Rn(2), lambda t, y: jnp.stack(field(t, y)))
    result = ph.floquet(system, period, state=jnp.array([x, 0.0]))
    equal(result.multipliers, [1, np.exp(divergence)], 1e-8)
    np.testing.assert_allclose(result.exponents[1], divergence / period, atol=1e-6)
    assert result.stable
    assert result.closure < 1e-8
    with pytest.raises(ValueError, match=r"does not close after the period of 6: number \d of its state"):
        ph.floquet(system, 6.0, state=jnp.array([x, 0.0]))
    with pytest.raises(ValueError, match="`period` must be positive, got -1"):
        ph.floquet(system, -1.0, state=jnp.array([x, 0.0]))


@pytest.mark.exhaustive
def test_a_pendulum_that_whirls_over_the_top_comes_back_after_a_turn() -> None:
    rate, k = 12.0, LENGTH * G / (INERTIA + LENGTH**2)
    model = ph.Model(gravity=(0, 0, -G))
    bob = model.add_body(
        mass=1.0, inertia=(INERTIA,) * 3, position=(0, 0, -LENGTH), velocity=(-rate * LENGTH, 0, 0),
        angular_velocity=(0, rate, 0), name="bob",
    )  # fmt: skip
    model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    pendulum = lambda t, y: [y[1], -k * np.sin(y[0]), y[3], -k * np.cos(y[0]) * y[2]]  # noqa: E731
    period = fsolve(lambda T: flow(pendulum, [0, rate, 0, 0], T[0])[0] - 2 * np.pi, [0.63], xtol=1e-13)[0]
    result = ph.floquet(model.problem("minimal", t1=1.0), period)
    expected = np.column_stack([flow(pendulum, [0, rate, *e], period)[2:] for e in np.eye(2)])
    np.testing.assert_allclose(result.monodromy, expected, atol=1e-8)
    assert result.stable


# --- motions that come back turned ----------------------------------------------------------------------------------


def satellite(axis: int, formulation: str) -> ph.Problem:
    model = ph.Model()
    model.add_body(
        mass=2.0, inertia=(6.0, 8.0, 3.0), position=(5, 1, 2), velocity=(0.3, 0.2, -0.1),
        angular_velocity=3.0 * np.eye(3)[axis],
    )  # fmt: skip
    return model.problem(formulation, t1=1.0)


@pytest.mark.exhaustive
def test_a_rotor_that_spins_about_its_middle_axis_falls() -> None:
    result = ph.floquet(satellite(0, "SE3"), 0.7)
    np.testing.assert_allclose(result.exponents[0], 3.0 * np.sqrt(2 * 3 / (8 * 3)), atol=1e-7)
    np.testing.assert_allclose(result.turn, (2.1, 0, 0), atol=1e-8)
    assert not result.stable


@pytest.mark.exhaustive
@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("formulation", ["S3|xR3", "SE3", "SO3xR3"])
def test_a_steady_spin_has_the_exponentials_of_its_eigenvalues(axis: int, formulation: str) -> None:
    """For a time that is no part of a turn; double ones come apart by the root of round-off."""
    problem = satellite(axis, formulation)
    result = ph.floquet(problem, 0.7)
    equal(result.multipliers, np.exp(0.7 * ph.linearise(problem).eigenvalues), 1e-4)
    assert result.stable is (axis == 1)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SE3", "minimal"])
def test_a_sleeping_top_is_carried_back_by_its_own_spin(formulation: str) -> None:
    """Steps that the error control finds long enough for the spin alone would be too long for the deviations."""
    model = ph.Model(gravity=(0, 0, -G))
    top = model.add_body(mass=2.0, inertia=(0.22, 0.22, 0.1), position=(0, 0, 0.3), angular_velocity=(0, 0, 35.0))
    model.add(ph.joints.Spherical(model.ground, top, point=(0, 0, 0)))
    problem = model.problem(formulation, t1=1.0)
    result = ph.floquet(problem, 0.3)
    nodding = (0.1 * 35 + np.array([1, -1]) * np.sqrt((0.1 * 35) ** 2 - 4 * 0.4 * 2 * 0.3 * G)) / (2 * 0.4)
    expected = np.exp(0.3j * np.concatenate((nodding, -nodding)))
    assert max(float(np.min(np.abs(result.multipliers - mu))) for mu in expected) < 1e-7
    assert result.stable
    np.testing.assert_array_equal(result.turn, np.zeros(3))


@pytest.mark.exhaustive
def test_a_pendulum_on_a_hoop_that_is_driven_comes_back_turned() -> None:
    rate, r = 6.0, 0.5
    model = ph.Model(gravity=(0, 0, -G))
    hoop = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), angular_velocity=(0, 0, rate), name="hoop")
    bob = model.add_body(mass=1.0, inertia=(0.02, 0.05, 0.04), position=(0, 0, -r), angular_velocity=(0, 0, rate))
    model.add(ph.joints.Revolute(model.ground, hoop, point=(0, 0, 0), axis=(0, 0, 1)))
    model.add(ph.joints.PrescribedRotation(model.ground, hoop, axis=(0, 0, 1), angle=lambda t: rate * t))
    model.add(ph.joints.Revolute(hoop, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    result = ph.floquet(model.problem("minimal", t1=1.0), 0.37)
    s = np.sqrt((rate**2 * (0.02 + r**2 - 0.04) - G * r) / (0.05 + r**2))
    equal(result.multipliers, np.exp(0.37 * np.array([s, -s])), 1e-8)
    np.testing.assert_allclose(result.turn, (0, 0, 0.37 * rate), atol=1e-9)


@pytest.mark.exhaustive
@pytest.mark.parametrize("along_z", [5e6])
def test_an_unround_rotor_in_unequal_bearings_comes_back_after_half_a_turn(along_z: float) -> None:
    """In no frame its coefficients are constant: M q̈ + d/dt (I(t) θ̇ + A W n) + K q = 0, q = (y, z, θy, θz)."""
    W, A, B, C, mass, arms = 300.0, 0.09, 0.06, 0.03, 12.0, (-0.15, 0.35)
    model = ph.Model()
    body = model.add_body(mass=mass, inertia=(A, B, C), angular_velocity=(W, 0, 0), name="rotor")
    K = np.zeros((4, 4))
    for arm in arms:
        bearing = (1e6, 2e6, along_z)
        model.add(ph.forces.Bushing(model.ground, body, point=(arm, 0, 0), stiffness=bearing))
        K += 2e6 * np.outer([1, 0, 0, arm], [1, 0, 0, arm]) + along_z * np.outer([0, 1, -arm, 0], [0, 1, -arm, 0])
    S = np.array([[0, -1], [1, 0]])

    def field(t: float, y: np.ndarray) -> np.ndarray:
        c, s = np.cos(W * t), np.sin(W * t)
        R = np.array([[c, -s], [s, c]])
        inertia = R @ np.diag([B, C]) @ R.T
        change = W * (S @ inertia - inertia @ S)
        force, rates = -K @ y[:4], y[4:]
        lateral = np.linalg.solve(inertia, force[2:] - A * W * np.array([rates[3], -rates[2]]) - change @ rates[2:])
        return np.concatenate((rates, force[:2] / mass, lateral))

    period = np.pi / W
    M = np.column_stack(
        [solve_ivp(field, (0, period), e, method="DOP853", rtol=1e-11, atol=1e-13).y[:, -1] for e in np.eye(8)]
    )
    result = ph.floquet(model.problem("SE3", t1=1.0), period)
    assert max(float(np.min(np.abs(result.multipliers - mu))) for mu in np.linalg.eigvals(M)) < 1e-7


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["minimal", "SO3xR3"])
def test_a_pendulum_on_the_coupler_of_a_driven_four_bar(formulation: str) -> None:
    """It swings across the plane of the mechanism, about the line of the coupler."""
    rate, J, mass, arm = 4.0, 0.002, 0.2, 0.2
    y, B, D = np.array([0.0, 1.0, 0.0]), np.array([0, 0, 0.3]), np.array([1.0, 0, 0])
    x, z = fsolve(lambda p: [np.hypot(p[0], p[1] - 0.3) - 0.9, np.hypot(p[0] - 1, p[1]) - 0.7], [0.8, 0.7])
    C = np.array([x, 0, z])
    at_B = rate * np.cross(y, B)
    turning = np.linalg.solve(np.column_stack([np.cross(y, C - B), -np.cross(y, C - D)])[[0, 2]], -at_B[[0, 2]])
    middle, along = (B + C) / 2, (C - B) / 0.9
    hang = np.cross(along, y) * -np.sign(np.cross(along, y)[2])
    model, I = ph.Model(gravity=(0, 0, -G)), (0.1, 0.1, 0.1)  # noqa: E741
    at_middle = at_B + turning[0] * np.cross(y, middle - B)

    def add(name: str, place: Any, velocity: Any, omega: float, **more: Any) -> Any:
        return model.add_body(position=place, velocity=velocity, angular_velocity=omega * y, name=name, **more)

    crank = add("crank", B / 2, at_B / 2, rate, mass=1.0, inertia=I)
    coupler = add("coupler", middle, at_middle, turning[0], mass=1.0, inertia=I)
    rocker = add("rocker", (C + D) / 2, turning[1] * np.cross(y, (C - D) / 2), turning[1], mass=1.0, inertia=I)
    swing = at_middle + turning[0] * np.cross(y, arm * hang)
    bob = add("bob", middle + arm * hang, swing, turning[0], mass=mass, inertia=(J, J, J))
    pairs = ((model.ground, crank, (0, 0, 0)), (crank, coupler, B), (coupler, rocker, C), (rocker, model.ground, D))
    for first, second, point in pairs:
        model.add(ph.joints.Revolute(first, second, point=point, axis=y))
    model.add(ph.joints.PrescribedRotation(model.ground, crank, axis=y, angle=lambda t: rate * t))
    model.add(ph.joints.Revolute(coupler, bob, point=middle, axis=along))
    result = ph.floquet(model.problem(formulation, t1=1.0, redundant="minimum-norm"), 2 * np.pi / rate)

    def place(t: Any, angle: Any) -> Any:
        pin = 0.3 * jnp.stack([jnp.sin(rate * t), jnp.cos(rate * t)])
        line = jnp.array([1.0, 0]) - pin
        far = jnp.sqrt(line @ line)
        phi = jnp.arctan2(line[1], line[0]) + jnp.arccos((0.81 + far**2 - 0.49) / (1.8 * far))
        down = arm * jnp.cos(angle)
        across = jnp.stack([pin[0] + 0.45 * jnp.cos(phi), pin[1] + 0.45 * jnp.sin(phi)])
        return jnp.stack([across[0] + down * jnp.sin(phi), arm * jnp.sin(angle), across[1] - down * jnp.cos(phi)])

    def lagrangian(angle: Any, speed: Any, t: Any) -> Any:
        r, v = jax.jvp(place, (t, angle), (1.0, speed))
        return mass * v @ v / 2 + J * speed**2 / 2 - mass * G * r[2]

    def acceleration(angle: Any, speed: Any, t: Any) -> Any:
        momentum = jax.grad(lagrangian, 1)
        by_angle, by_speed, by_time = jax.grad(momentum, (0, 1, 2))(angle, speed, t)
        return (jax.grad(lagrangian)(angle, speed, t) - by_angle * speed - by_time) / by_speed

    slopes = jax.jit(lambda t: jnp.stack(jax.grad(acceleration, (0, 1))(0.0, 0.0, t)))
    field = lambda t, y: [y[1], float(np.asarray(slopes(t)) @ y)]  # noqa: E731
    truth = [
        solve_ivp(field, (0, 2 * np.pi / rate), e, method="DOP853", rtol=1e-10, atol=1e-12).y[:, -1] for e in np.eye(2)
    ]
    equal(result.multipliers, np.linalg.eigvals(np.column_stack(truth)), 1e-6)
