"""A satellite with three wheels and a flexible panel in the coordinates that are chosen for it."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import polhode as ph

SPIN = np.array([0.02, -0.03, 0.04])
WHEEL, TORQUE, FRICTION = 0.04, 0.6 * np.array([0.3, 1.0, 0.9]), 2e-4
SLEW, END = 4.0, 8.0


def push(t: Any) -> Any:
    """Torques of the motors, one way and back."""
    return jnp.where(t < SLEW, 1.0, -1.0) * TORQUE


def smooth_push(t: Any) -> Any:
    """The same without jumps, which strike the panel."""
    return jnp.sin(2 * np.pi * t / END) * jnp.sin(np.pi * t / END) ** 2 * TORQUE


def satellite(edges: int = 2, push: Any = push) -> ph.Model:
    """All of it turns as one at the start. The panel is so stiff that it hardly bends."""
    model = ph.Model(units="SI")
    add = lambda mass, inertia, x, name: model.add_body(  # noqa: E731
        mass=mass, inertia=inertia, position=x, velocity=np.cross(SPIN, x), angular_velocity=SPIN, name=name
    )
    hub = add(100.0, (20.0, 25.0, 30.0), np.zeros(3), "hub")
    axles = []
    for k, axis in enumerate(np.eye(3)):
        place = 0.2 * np.roll(axis, 1)
        wheel = add(4.0, np.where(np.arange(3) == k, WHEEL, 0.02), place, f"wheel-{k}")
        axles.append(model.add(ph.joints.Revolute(hub, wheel, point=place, axis=axis, name=f"axle-{k}")))
    control = lambda t, s, rates: push(t) - FRICTION * rates  # noqa: E731
    model.add(ph.forces.JointControl(axles, control, name="motors"))
    section = ph.rods.Section(stiffness=(2e6, 2e6, 2e6, 1e9, 1e9, 1e9), mass=2.0, inertia=(0.02, 0.01, 0.01))
    points = [np.array([0.5 + 2.0 * k / edges, 0, 0]) for k in range(edges + 1)]
    frames = [np.asarray(node.R) for node in ph.Model().add_rod(points=points, section=section).nodes]
    velocities, turning = [np.cross(SPIN, x) for x in points], [R.T @ SPIN for R in frames]
    panel = model.add_rod(points=points, section=section, velocity=velocities, angular_velocity=turning, name="panel")
    model.add(ph.joints.Fixed(hub, panel.first, name="root"))
    return model


def gyrostat(model: ph.Model, push: Any = push) -> tuple[np.ndarray, np.ndarray]:
    """Rotation of the hub and rates of the wheels at the end, all else rigid: with the angular momentum H,
    ω = I⁻¹(RᵀH - JΩ), J(Ω̇ + ω̇) = τ."""
    mass = np.array([float(b.mass) for b in model.bodies])
    places = np.array([np.asarray(b.x) for b in model.bodies])
    arms = places - mass @ places / mass.sum()
    inertia = sum(
        np.asarray(b.R) @ np.asarray(b.inertia) @ np.asarray(b.R).T + m * (a @ a * np.eye(3) - np.outer(a, a))
        for b, m, a in zip(model.bodies, mass, arms, strict=True)
    )
    H = inertia @ SPIN
    coupled = WHEEL * np.eye(3) - WHEEL**2 * np.linalg.inv(inertia)

    def rates(t: float, y: np.ndarray) -> np.ndarray:
        R, wheels = y[:9].reshape(3, 3), y[9:]
        omega = np.linalg.solve(inertia, R.T @ H - WHEEL * wheels)
        torque = np.asarray(push(t)) - FRICTION * wheels
        # From the derivative of ω: RᵀH turns by -ω × RᵀH.
        turning = np.linalg.solve(inertia, -np.cross(omega, R.T @ H))
        turned = R @ np.cross(np.eye(3), omega)
        return np.concatenate((turned.reshape(-1), np.linalg.solve(coupled, torque - WHEEL * turning)))

    y = np.concatenate((np.eye(3).reshape(-1), np.zeros(3)))
    for span in ((0.0, SLEW), (SLEW + 1e-12, END)):
        y = solve_ivp(rates, span, y, method="DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
    return y[:9].reshape(3, 3), y[9:]


@pytest.mark.exhaustive
def test_wheels_and_attitude_after_a_slew_are_those_of_a_gyrostat():
    model = satellite()
    problem = model.problem(t1=END, h=5e-3)
    assert problem.parameters["formulation"] == "minimal"
    assert problem.integrator == "generalized-alpha"
    run = ph.simulate(problem, save_every=200, breakpoints=(SLEW,))
    R, wheels = gyrostat(model)
    assert np.max(np.abs(run.joints["axle-1"].rate)) > 50
    found = [float(run.joints[f"axle-{k}"].rate[-1]) for k in range(3)]
    np.testing.assert_allclose(found, wheels, atol=1e-5)
    np.testing.assert_allclose(run.bodies["hub"].rotation[-1], R, atol=1e-6)
    assert not run.audit().remarks


@pytest.mark.exhaustive
def test_errors_of_a_smooth_slew_fall_with_the_square_of_the_step():
    """With jumps the panel vibrates, and the rates of the wheels with it; long steps damp that, short ones show it."""
    model = satellite(push=smooth_push)
    R, wheels = gyrostat(model, smooth_push)
    errors = []
    for h in (1e-2, 5e-3):
        run = ph.simulate(model.problem(t1=END, h=h), save_every=None)
        found = np.array([float(run.joints[f"axle-{k}"].rate[-1]) for k in range(3)])
        errors.append([np.abs(found - wheels).max(), np.abs(np.asarray(run.bodies["hub"].rotation[-1]) - R).max()])
    assert np.all(np.array(errors[0]) < [2e-9, 2e-8])
    np.testing.assert_allclose(np.divide(*errors), 4.0, rtol=0.3)


@pytest.mark.exhaustive
def test_the_audit_says_that_wheels_are_too_fast_in_absolute_coordinates():
    run = ph.simulate(satellite().problem("SO3xR3", t1=3.0, h=5e-3), save_every=100)
    assert any(
        "`wheel-1` turns by up to 0.22 rad in a step" in r and '`formulation="minimal"`' in r
        for r in run.audit().remarks
    )
