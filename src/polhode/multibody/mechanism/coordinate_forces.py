"""Relative coordinates of bodies and forces along them: the interfaces that joints and forces implement."""

from __future__ import annotations

import abc
import itertools
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.modules import Module
from polhode.multibody.mechanism.angles import PlacedAngle
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.mechanism.user_functions import Function

Scalar = Float[Array, ""]


class AbstractRelativeCoordinate(Module):
    """A scalar function of the poses of bodies, two by default, that is invariant under rigid motions.

    `pairwise` tells whether its loads balance on each pair of bodies 2k and 2k + 1, not only on all of them.
    """

    pairwise: ClassVar[bool] = True

    @abc.abstractmethod
    def difference(self, poses: Poses, target: Any) -> Scalar:
        """The coordinate minus `target`; for angles in (-π, π] and continuous around the target."""

    def value(self, poses: Poses) -> Scalar:
        """The coordinate. Angles are real numbers: those within half a turn of their `reference`."""
        return self.difference(poses, 0.0)

    def angles(self, nodes: Sequence[int] | None = None) -> tuple[PlacedAngle, ...]:
        """The angles of which it consists, with their `nodes`; none unless overridden.

        `nodes`: numbers of its bodies among the nodes of an element, 0, 1, … by default.
        """
        del nodes
        return ()

    @abc.abstractmethod
    def rate(self, poses: Poses, twists: Twists) -> Scalar:
        """Its time derivative."""

    @abc.abstractmethod
    def wrenches(self, poses: Poses, strength: Any) -> tuple[Wrench, ...]:
        """Loads on the bodies whose power is `strength` times `rate`."""


class AbstractEffort(AbstractForceElement):
    r"""A force or torque $f(t, s, \dot s)$ along a relative coordinate s; angles count turns.

    Where s is a joint coordinate of the system it acts along this; otherwise on the two bodies. `stored` is its
    potential, if any.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    coordinate: eqx.AbstractVar[AbstractRelativeCoordinate]

    @abc.abstractmethod
    def effort(self, t: Array, s: Array, rate: Array) -> Float[Array, ""]:
        """The generalised force f."""

    def stiffest(self) -> AbstractEffort:
        return self

    def rate_to_onset(self, poses: Poses, twists: Twists, sense: Array) -> Float[Array, ""]:
        return self.onset_rate(self.coordinate.value(poses), self.coordinate.rate(poses, twists), sense)

    def onset_rate(self, s: Array, rate: Array, sense: Array) -> Float[Array, ""]:
        """The reciprocal of the time to the onset of the force, or through a part of it; 0 where none is ahead."""
        del s, rate, sense
        return jnp.zeros(())

    def stored_energy(self, s: Array) -> Float[Array, ""]:
        """Potential of the part of the force that has one; zero unless overridden."""
        del s
        return jnp.zeros(())

    def deflection(self, s: Array) -> Float[Array, " k"]:
        """Output values with the names `measures`, at a value of the coordinate; none unless overridden."""
        del s
        return jnp.zeros(0)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        rate = self.coordinate.rate(poses, twists) if self.uses_twists else jnp.zeros(())
        return self.coordinate.wrenches(poses, self.effort(t, self.coordinate.value(poses), rate))

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        return self.stored_energy(self.coordinate.value(poses))

    def measurements(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        del t
        return self.deflection(self.coordinate.value(poses))

    def angles(self) -> tuple[PlacedAngle, ...]:
        return self.coordinate.angles()


class Feedback(AbstractForceElement):
    """Forces u(t, s, ṡ) along relative coordinates s.

    **Arguments:**

    - `coordinates`: on consecutive nodes. - `sizes`: numbers of nodes of each.
    - `control`: (t, s, ṡ) → forces, all of shape (n,).
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    coordinates: tuple[AbstractRelativeCoordinate, ...]
    sizes: tuple[int, ...] = eqx.field(static=True)
    control: Function

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        own = list(zip(self.coordinates, self._split(poses), self._split(twists), strict=True))
        s = jnp.stack([c.value(where) for c, where, _ in own])
        rates = jnp.stack([c.rate(where, rate_args) for c, where, rate_args in own])
        efforts = self.efforts(t, s, rates)
        return tuple(w for (c, where, _), f in zip(own, efforts, strict=True) for w in c.wrenches(where, f))

    def efforts(self, t: Array, s: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " n"]:
        """The generalised forces."""
        return jnp.asarray(self.control(t, s, rates))

    def angles(self) -> tuple[PlacedAngle, ...]:
        nodes = self._split(range(sum(self.sizes)))
        return tuple(angle for c, own in zip(self.coordinates, nodes, strict=True) for angle in c.angles(tuple(own)))

    def _split(self, nodes: Sequence[Any]) -> list[Any]:
        ends = list(itertools.accumulate(self.sizes))
        return [nodes[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]
