"""Dry friction of joints that turn in several directions."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.joints.spherical import Spherical
from polhode.joints.universal import Universal
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.mechanism.user_functions import Constant, Function, of_time
from polhode.multibody.parts import AbstractForce


class TurningFriction(AbstractForceElement):
    """Friction that follows from a law between angular velocities and impulses: as a function of the state, nothing.

    - `bound`: the largest torque, a function of time.
    """

    uses_poses: ClassVar[bool] = False
    uses_twists: ClassVar[bool] = False

    bound: Function

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        return tuple(Wrench(jnp.zeros(3), jnp.zeros(3)) for _ in poses)


@dataclasses.dataclass(frozen=True, eq=False)
class PivotFriction(AbstractForce):
    r"""Dry friction of a ball joint, which sticks: a torque $|\tau| \le F$ against the relative angular velocity ω.

    It is a contact with the law $\tau = -F\omega/|\omega|$, which may be any torque up to F at rest: a joint that it
    holds doesn't move. Methods with contacts take it, `moreau` by default.

    Friction along one coordinate is `JointFriction`; that of a universal joint may be either, two of those or one of
    this kind.

    **Arguments:**

    - `joint`: `joints.Spherical` or `joints.Universal`; it need not be part of the model.
    - `friction`: F, a torque or a function of time.
    - `name`: for messages and results.

    **Raises** ValueError for other joints and for negative friction; a function of time that gives such ends the run
    by `invalid_friction`.
    """

    joint: Spherical | Universal
    friction: Any
    name: str | None = None

    @eager_numpy()
    def __post_init__(self) -> None:
        if not isinstance(self.joint, Spherical | Universal):
            raise ValueError(
                "`joint` of PivotFriction must be `Spherical` or `Universal`, which turn in several directions, got "
                f"{short_repr(self.joint)}. Along one coordinate friction is `JointFriction`."
            )
        self.place(())

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.joint.bodies

    @property
    def is_rigid(self) -> bool:
        return True

    def place(self, poses: Poses) -> TurningFriction:
        del poses
        friction = self.friction
        if not callable(friction):
            value = checks.array("friction", friction, (), "largest torque")
            if checks.is_concrete(value) and not float(value) >= 0:
                raise ValueError(f"`friction` can't be negative, got {short_repr(friction)}.")
            friction = Constant(value)
        return TurningFriction(of_time(self, "friction", friction, (), "largest torque"))
