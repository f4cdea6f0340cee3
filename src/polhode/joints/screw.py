"""The screw joint."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.joints._elements import FrameConstraint
from polhode.joints._frames import axis, frame
from polhode.joints._pair import (
    SlidingJoint,
    TurningJoint,
    angle_about,
    displacement_along,
    join,
    link_frame,
    turning_about,
)
from polhode.joints.relative import AbstractRelativeCoordinate, Angle, Displacement
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.motions import ScrewMotion
from polhode.multibody.mechanism.elements import AbstractConstraintElement
from polhode.multibody.mechanism.poses import Poses


class ThreadConstraint(AbstractConstraintElement):
    r"""A common axis, and a displacement z along it that goes with the angle φ about it: $-p\sin(\varphi - z/p)$.

    To first order that is $z - p\varphi$. The angle enters by its cosine and sine only, so a screw may make any number
    of turns.

    **Arguments:**

    - `guide`: the constraint that keeps the axis common, of four components.
    - `angle`, `displacement`: φ and z as functions of the poses.
    - `advance`: p, the displacement per angle, in metres per radian; negative for a left-handed thread.
    """

    relative: ClassVar[bool] = True

    guide: FrameConstraint
    angle: Angle
    displacement: Displacement
    advance: Float[Array, ""]

    @property
    def size(self) -> int:
        return self.guide.size + 1

    def residual(self, t: Array, poses: Poses) -> Float[Array, " size"]:
        sine, _ = self.angle.sine_and_cosine(poses, self._thread_angle(poses))
        return jnp.append(self.guide.residual(t, poses), -self.advance * sine)

    def sides(self, t: Array, poses: Poses) -> Float[Array, " s"]:
        _, cosine = self.angle.sine_and_cosine(poses, self._thread_angle(poses))
        return jnp.append(self.guide.sides(t, poses), cosine)

    def branch_residual(self, t: Array, poses: Poses) -> Float[Array, " size"]:
        off = self.angle.difference(poses, self._thread_angle(poses))
        return jnp.append(self.guide.branch_residual(t, poses), -self.advance * off)

    def points(self) -> tuple[Array, ...]:
        return self.guide.points()

    def _thread_angle(self, poses: Poses) -> Float[Array, ""]:
        """The angle that belongs to the displacement."""
        return self.displacement.difference(poses, 0.0) / self.advance


@dataclasses.dataclass(frozen=True, eq=False)
class Screw(TurningJoint, SlidingJoint):
    r"""A nut on a spindle: rotation about an axis, with a translation along it in proportion. Five constraints.

    Multipliers: the force on the first body at the point of the second along x and y, then the moments on it about x
    and y, which are those of `Revolute`, fixed in the first body; last the force λ on it along the axis, with which
    goes the moment $-\lambda\,\mathrm{lead}/2\pi$ about it.

    **Arguments:**

    - `first`, `second`: rigid bodies, or `model.ground`.
    - `point`, `axis`: of the common axis in the inertial frame at the initial time.
    - `lead`: by how much the second body moves along the axis, relative to the first, in a full turn about it by the
      right-hand rule; negative for a left-handed thread.
    - `name`: for messages.

    **Raises** ValueError if the lead is zero: that is a `Revolute` joint.
    """

    point: Any
    axis: Any
    lead: Any
    name: str | None = None

    def place(self, poses: Poses) -> ThreadConstraint:
        n = axis("axis", self.axis)
        x, y, z = frame(n)
        guide = join(self, poses, self.point, along=[x, y], perpendicular=turning_about(x, y, z))
        angle, displacement = angle_about(n, poses), displacement_along(n, poses, self.point)
        return ThreadConstraint(guide, angle, displacement, self._advance())

    def motion(self, carried: Body) -> ScrewMotion:
        return ScrewMotion(link_frame(self, carried, self.point, axis("axis", self.axis)), self._advance())

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        n, poses = axis("axis", self.axis), self._start()
        return {"angle": angle_about(n, poses), "displacement": displacement_along(n, poses, self.point)}

    def _advance(self) -> Float[Array, ""]:
        lead = checks.array("lead", self.lead, (), "displacement in a full turn")
        if checks.is_concrete(lead) and float(np.asarray(lead)) == 0:
            raise ValueError("`lead` is zero, so nothing moves along the axis. Join the bodies by `Revolute`.")
        return lead / (2 * jnp.pi)
