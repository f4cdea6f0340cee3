"""Unwrapped angles, which count full turns."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.joints._frames import axis, frame
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.mechanism.poses import Poses
from polhode.multibody.parts import AbstractJoint
from polhode.problem import Observable
from polhode.problems._model_problem import AssembledSystem

SHARE = 0.01
"""Part of a body's inertia about its axis that its counter carries, so that neither is without mass."""


class TurnAngle(AbstractConstraintElement):
    """A coordinate equals the angle between two bodies: sin(φ - c) = 0.

    **Arguments:**

    - `x`, `y`: directions of body 0 across the axis. - `b`: the direction of body 1 at angle φ from x.
    """

    x: Float[Array, "3"]
    y: Float[Array, "3"]
    b: Float[Array, "3"]

    @property
    def size(self) -> int:
        return 1

    def residual(self, t: Array, poses: Poses) -> Float[Array, "1"]:
        first, second, counter = poses
        direction = first.R.T @ (second.R @ self.b)
        angle = counter.x[0]
        return ((direction @ self.y) * jnp.cos(angle) - (direction @ self.x) * jnp.sin(angle))[None]


@dataclasses.dataclass(frozen=True, eq=False)
class CountTurns(AbstractJoint):
    """A single coordinate follows the angle of a body about an axis, and goes on counting after full turns.

    Give it a part of the inertia of the body about the axis and take that from the body: then the motion is the same.

    **Arguments:**

    - `first`, `second`: bodies joined by a hinge. - `counter`: from `Model.add_coordinate`, starting at the angle.
    - `axis`: of the hinge in the inertial frame at the initial time.
    - `name`: for messages.
    """

    first: Body
    second: Body
    counter: Body
    axis: Any
    name: str | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second, self.counter

    def place(self, poses: Poses) -> TurnAngle:
        first, second, counter = poses
        x, y, _ = frame(axis("axis", self.axis))
        now = counter.x[0]
        b = x * jnp.cos(now) + y * jnp.sin(now)
        return TurnAngle(first.R.T @ x, first.R.T @ y, second.R.T @ b)


def crank_outputs(system: AssembledSystem, counter: Body) -> dict[str, Observable]:
    """The counted angle and its rate."""
    return {
        "crank_angle": lambda t, state: system.pose_in(state, counter).x[0],
        "crank_speed": lambda t, state: system.twist_in(state, counter).u[0],
    }
