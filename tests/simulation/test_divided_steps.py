"""Steps in which a joint runs into a stop, beside SciPy with steps that resolve it."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import scipy.integrate

import polhode as ph
from polhode.integrators.explicit.rkmk import RKMK

LIMIT, STIFFNESS, DAMPING, ONSET = 0.3, 2770.0, 100.0, 1e-3
"""Of a stop as imported robots have it, for a moment of inertia of 1."""
SPEED, TURN, END, STEP = 13.0, 0.05, 0.1, 2e-3
"""The damper of the stop comes into force within 0.08 ms."""


class WholeSteps(RKMK):
    """The same method with steps that are not divided."""

    divisible: ClassVar[bool] = False


def rotor() -> tuple[ph.Model, Any]:
    """A rotor that runs into a stop."""
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(1, 1, 1), angular_velocity=(0, 0, SPEED))
    joint = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 0, 1), name="axle"))
    model.add(ph.forces.JointStops(joint, (-np.inf, LIMIT), STIFFNESS, DAMPING, onset=ONSET))
    return model, joint


def angles(speed: float, t: np.ndarray) -> np.ndarray:
    def rates(_: float, x: np.ndarray) -> list[float]:
        depth = max(x[0] - LIMIT, 0.0)
        return [x[1], -max(STIFFNESS * depth + DAMPING * min(depth / ONSET, 1.0) * x[1], 0.0)]

    return scipy.integrate.solve_ivp(rates, (0, END), [0.0, speed], t_eval=t, rtol=1e-10, atol=1e-12, max_step=2e-5).y[
        0
    ]


def error(formulation: str, method: Any) -> float:
    model, joint = rotor()
    system, state = model.assemble(formulation)
    run = ph.simulate(system, method, h=STEP, t1=END, state0=state)
    return float(np.max(np.abs(joint.value(system, run.t, run.state) - angles(SPEED, np.minimum(run.t, END)))))


@pytest.mark.sampled(2)
@pytest.mark.parametrize(
    ("formulation", "method", "largest"),
    [
        ("minimal", "rkmk4", 2e-5),
        pytest.param("SO3xR3", "herk4", 2e-5, marks=pytest.mark.exhaustive),
        pytest.param("minimal", "generalized-alpha", 5e-4, marks=pytest.mark.exhaustive),
        ("SO3xR3", "generalized-alpha", 5e-4),
    ],
)
def test_a_stop_is_resolved_by_steps_that_are_longer(formulation: str, method: str, largest: float) -> None:
    assert error(formulation, method) < largest


def whole_steps() -> WholeSteps:
    method = ph.integrators.get("rkmk4")
    return WholeSteps(**{field.name: getattr(method, field.name) for field in dataclasses.fields(method)})


def test_whole_steps_miss_the_onset() -> None:
    assert error("minimal", whole_steps()) > 1e-3


@pytest.mark.parametrize(
    ("method", "least", "largest"),
    [("rkmk4", 0.0, 1e-4), pytest.param("generalized-alpha", 0.0, 1e-3, marks=pytest.mark.exhaustive), (None, 0.05, 1)],
)
def test_the_audit_sees_the_work_of_stops_between_frames(method: Any, least: float, largest: float) -> None:
    """Pulses last for a fifth of the 4 ms between frames, from whose powers alone 15 % of the energy were missing."""
    model, _ = rotor()
    run = ph.simulate(model.problem("minimal", t1=0.5), method or whole_steps(), h=STEP, save_every=2)
    assert least <= run.audit()["energy"].relative < largest


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rkmk4", "generalized-alpha"])
def test_derivatives_go_through_the_parts_of_a_step(method: str) -> None:
    model, joint = rotor()
    system, (q, v) = model.assemble("minimal")

    def last(speed: Any) -> Any:
        run = ph.simulate(system, method, h=STEP, t1=TURN, state0=(q, v * speed / SPEED))
        return joint.value(system, run.t, run.state)[-1]

    above, below = (angles(SPEED + change, np.array([TURN]))[0] for change in (1e-3, -1e-3))
    assert float(jax.grad(last)(jnp.asarray(SPEED))) == pytest.approx((above - below) / 2e-3, rel=1e-3)


class WithOldMemory(ph.integrators.GeneralizedAlpha):
    """The same method with accelerations and velocities of a part as they are in the next one."""

    def after_part(self, system: Any, t: Any, carry: Any) -> Any:
        return carry


@pytest.mark.exhaustive
def test_accelerations_begin_again_after_parts_of_constrained_steps() -> None:
    """A pendulum in absolute coordinates that falls into its stop with 13 rad/s: without that one step leads astray."""
    inertia, stiffness, damping = 0.1 + 0.5**2, 970.0, 35.0

    def rates(_: float, x: np.ndarray) -> list[float]:
        depth = max(x[0] - LIMIT, 0.0)
        stop = max(stiffness * depth + damping * min(depth / ONSET, 1.0) * x[1], 0.0)
        return [x[1], (9.81 * 0.5 * np.cos(x[0]) - stop) / inertia]

    model = ph.Model(gravity=(0, 0, -9.81))
    motion = dict(velocity=(0, 0, -0.5 * SPEED), angular_velocity=(0, SPEED, 0))
    body = model.add_body(mass=1.0, inertia=(0.1, 0.1, 0.1), position=(0.5, 0, 0), **motion)
    joint = model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    model.add(ph.forces.JointStops(joint, (-np.inf, LIMIT), stiffness, damping, onset=ONSET))
    problem, errors = model.problem("SO3xR3", t1=0.5), []
    method = ph.integrators.get("generalized-alpha")
    for each in (
        method,
        WithOldMemory(**{field.name: getattr(method, field.name) for field in dataclasses.fields(method)}),
    ):
        run = ph.simulate(problem, each, h=STEP)
        exact = scipy.integrate.solve_ivp(
            rates, (0, 0.5), [0, SPEED], t_eval=run.t, rtol=1e-10, atol=1e-12, max_step=2e-5
        )
        errors.append(np.abs(joint.value(problem.system, run.t, run.state) - exact.y[0]).max())
    assert errors[0] < 3e-3
    assert errors[1] > 5e-3
