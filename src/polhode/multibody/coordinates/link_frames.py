"""Links of a tree as nodes at which elements end."""

from __future__ import annotations

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.linalg.blocks import Indices
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.multibody.formulations.base import AbstractFrame
from polhode.multibody.mechanism.groups import AbstractNodeGroup
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.spaces.base import AbstractSpace, Point, Vector


class LinkFrame(AbstractFrame):
    """The frame of a link as a function of all coordinates of its tree, and of the velocities that move it.

    - `link`: its number. - `moving`: these velocities.
    """

    tree: AbstractCoordinates
    link: int = eqx.field(static=True)
    moving: Indices = eqx.field(static=True)

    @property
    def space(self) -> AbstractSpace:
        return self.tree.space

    @property
    def n(self) -> int:
        return self.moving.numbers.size

    def move(self, q: Point, theta: Vector) -> Point:
        return self.tree.space.move(q, self._all_velocities(theta))

    def pose(self, q: Point) -> Pose:
        x, R = self.tree.motion(q).poses
        return Pose(x[self.link], R[self.link])

    def twist(self, q: Point, v: Vector) -> Twist:
        twists = self.tree.motion(q, self._all_velocities(v)).twists
        assert twists is not None
        return Twist(twists.omega[self.link], twists.u[self.link])

    def _all_velocities(self, v: Vector) -> Float[Array, " all"]:
        return jnp.zeros(self.tree.n).at[self.moving.numbers.reshape(-1)].set(v)


class LinkNodes(AbstractNodeGroup):
    """The links of a tree.

    - `moving`: for each link the velocities that move it.
    """

    tree: AbstractCoordinates
    moving: tuple[Indices, ...] = eqx.field(static=True)

    @property
    def looped(self) -> bool:
        return False

    def frame(self, node: int) -> LinkFrame:
        return LinkFrame(self.tree, node, self.moving[node])
