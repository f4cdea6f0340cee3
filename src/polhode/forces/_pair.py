"""Shared parts of forces between two bodies."""

from __future__ import annotations

import abc
import dataclasses
from typing import Any

from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.numpy.eager import eager_numpy
from polhode.joints._frames import check_distinct, initial_pose
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Pose, Poses, Wrench
from polhode.multibody.parts import AbstractForce
from polhode.spaces.base import cross


@dataclasses.dataclass(frozen=True, eq=False)
class AbstractPairForce(AbstractForce):
    """A load that two bodies exert on each other. Its data are checked when it is made."""

    first: Body
    second: Body

    @eager_numpy()
    def __post_init__(self) -> None:
        check_distinct(self, self.first, self.second)
        self.place((initial_pose(self.first), initial_pose(self.second)))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractForceElement: ...


def force_wrench(pose: Pose, s: Float[Array, "3"], force: Float[Array, "3"]) -> Wrench:
    """The load of an inertial force at a point s of the body frame."""
    return Wrench(cross(s, pose.R.T @ force), force)


def check_constant(name: str, value: Any, meaning: str) -> Array:
    """A number of a linear law. Raises ValueError for others; for functions it names the elements that take them."""
    if callable(value):
        raise ValueError(
            f"`{name}` must be a number ({meaning}), got {checks.short_repr(value)}: the law is linear. Write other "
            "laws as a `Potential` or a `Load` of bodies, or as a `JointControl` of joints, (t, s, rates) → forces."
        )
    return checks.array(name, value, (), meaning)
