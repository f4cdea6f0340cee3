"""The screw: a nut that falls along its spindle, over many turns, in every kind of coordinates."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from jaxtyping import Array

import polhode as ph
from polhode.multibody.mechanism.poses import Pose

MASS, INERTIA, GRAVITY, LEAD = 2.0, 0.3, 9.81, -0.5
ADVANCE = LEAD / (2 * np.pi)
# Of the angle: the weight does the work m g p per radian on the mass m p² and the moment of inertia.
FALL = -MASS * GRAVITY * ADVANCE / (INERTIA + MASS * ADVANCE**2)
SPIN = 60.0


def spindle(swapped: bool = False, slip: float = 0.0) -> tuple[ph.Model, Any]:
    """A nut on the vertical; its centre is on the axis, so that the thread carries all of its weight."""
    model = ph.Model(gravity=(0, 0, -GRAVITY))
    nut = model.add_body(
        mass=MASS, inertia=(0.2, 0.25, INERTIA), name="nut",
        velocity=(0, 0, ADVANCE * SPIN + slip), angular_velocity=(0, 0, SPIN),
    )  # fmt: skip
    ends = (nut, model.ground) if swapped else (model.ground, nut)
    joint = model.add(ph.joints.Screw(*ends, point=(0, 0, 0.1), axis=(0, 0, 1), lead=LEAD, name="thread"))
    return model, joint


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize(
    ("formulation", "method", "h", "swapped"),
    [
        ("SO3xR3", "herk4", 2e-3, False),
        ("SE3", "generalized-alpha", 2e-3, True),
        ("minimal", "rkmk4", 1e-2, False),
        ("minimal", "rkmk4", 1e-2, True),
        ("livens", "eml", 2e-3, False),
    ],
)
def test_a_nut_falls_and_turns_as_in_the_textbook(formulation: str, method: str, h: float, swapped: bool) -> None:
    model, joint = spindle(swapped)
    system, state = model.assemble(formulation)
    run = ph.simulate(system, method, h=h, t1=1.0, state0=state)
    turned = (-1 if swapped else 1) * (SPIN * run.t + 0.5 * FALL * run.t**2)
    assert abs(turned[-1]) > 10 * np.pi
    angle = np.unwrap(joint.angle(system, run.t, run.state))
    # Cayley's map turns by 2 atan(hΩ/2) in place of hΩ.
    np.testing.assert_allclose(angle, turned, rtol=(SPIN * h) ** 2 / 8 if method == "eml" else 0, atol=1e-4)
    np.testing.assert_allclose(joint.displacement(system, run.t, run.state), ADVANCE * angle, atol=1e-6)
    energy = np.asarray(run.invariants["energy"])
    np.testing.assert_allclose(energy, energy[0], rtol=1e-12 if method == "eml" else 1e-6)


@pytest.mark.exhaustive
def test_the_thread_carries_the_weight_by_a_force_and_a_moment() -> None:
    model, _ = spindle()
    system, state = model.assemble("SO3xR3")
    run = ph.simulate(system, "herk4", h=2e-3, t1=4e-3, state0=state)
    load = system.joint_multipliers(run.t, run.state[0], run.multipliers)["thread"]
    np.testing.assert_allclose(load[:, :4], 0, atol=1e-9)
    np.testing.assert_allclose(load[:, 4], -MASS * (GRAVITY + ADVANCE * FALL), rtol=1e-6)
    np.testing.assert_allclose(-ADVANCE * load[:, 4], -INERTIA * FALL, rtol=1e-6)


def test_velocities_that_the_thread_does_not_allow_are_refused() -> None:
    for formulation in ("SO3xR3", "minimal"):
        with pytest.raises(ValueError, match="thread"):
            spindle(slip=0.1)[0].assemble(formulation)


def test_half_a_turn_off_is_not_on_the_thread() -> None:
    """The sine vanishes there too; the cosine and the angle tell."""
    _, joint = spindle()
    element, start = joint.place(joint._start()), joint._start()
    turned = start[1]._replace(R=start[1].R @ np.diag([-1.0, -1.0, 1.0]))

    def measured(second: Pose) -> tuple[Array, ...]:
        poses = (start[0], second)
        t = jnp.zeros(())
        return element.residual(t, poses), element.sides(t, poses), element.branch_residual(t, poses)

    residual, sides, branch_residual = evaluated(measured, turned)
    np.testing.assert_allclose(residual, 0, atol=1e-15)
    np.testing.assert_allclose(sides, (1, 1, -1), atol=1e-15)
    np.testing.assert_allclose(np.abs(branch_residual), (0, 0, 0, 0, abs(LEAD) / 2), atol=1e-15)
    # A whole turn without the displacement that goes with it is on the next thread; with it, on this one.
    residual, sides, branch_residual = evaluated(measured, start[1]._replace(x=start[1].x + jnp.array([0, 0, LEAD])))
    np.testing.assert_allclose(np.concatenate((residual, branch_residual)), 0, atol=1e-15)
    np.testing.assert_allclose(sides, 1, atol=1e-15)
