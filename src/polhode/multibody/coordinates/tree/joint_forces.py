"""Forces and inertias along a joint coordinate of a tree."""

from __future__ import annotations

import abc
import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.known_places import add_entries, take
from polhode.modules import Module
from polhode.multibody.mechanism.batches import RaggedRows, structural_groups
from polhode.spaces.base import Point, Vector

if TYPE_CHECKING:
    from polhode.multibody.mechanism.coordinate_forces import AbstractEffort, Feedback


class CoordinateIndex(NamedTuple):
    """Index of a joint coordinate: number of the link, of the coordinate in its joint, of its velocity in v."""

    link: int
    component: int
    velocity: int


class AbstractJointCoordinateForce(Module):
    """Forces along joint coordinates.

    - `places`: indices of the n joint coordinates on which they depend and along which they act.
    """

    places: eqx.AbstractVar[tuple[CoordinateIndex, ...]]

    @property
    @abc.abstractmethod
    def conservative(self) -> bool:
        """Whether they have the potential `potential`."""

    @property
    def brief(self) -> bool:
        """Whether they may act within a few steps only, as stops do."""
        return False

    @property
    def has_onset(self) -> bool:
        """Whether they come into force within a short way, as stops do."""
        return False

    def onset_rate(self, s: Float[Array, " n"], rates: Float[Array, " n"], sense: Array) -> Float[Array, ""]:
        """See `AbstractEffort.onset_rate`."""
        del s, rates, sense
        return jnp.zeros(())

    @abc.abstractmethod
    def stiffest(self) -> AbstractJointCoordinateForce:
        """One with the largest derivatives that the forces have in a run, for limits of the step."""

    @abc.abstractmethod
    def efforts(self, t: Array, s: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " k"]:
        """Forces along the k coordinates of the element, which may be combinations of joint coordinates s."""

    @abc.abstractmethod
    def forces(self, t: Array, s: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " n"]:
        """The same along the joint coordinates."""

    @abc.abstractmethod
    def deflection(self, t: Array, s: Float[Array, " n"]) -> Float[Array, " m"]:
        """Output values besides the strength of the force."""

    @abc.abstractmethod
    def potential(self, s: Float[Array, " n"]) -> Float[Array, ""]:
        """Their potential."""


class JointEffort(AbstractJointCoordinateForce):
    """A force along a joint coordinate, turns included, or along a linear combination of several.

    - `element`: the force. - `zero`: its coordinate where those of the joints are zero.
    - `ratios`: coefficients of the joint coordinates in its coordinate.
    """

    element: AbstractEffort
    zero: Float[Array, ""]
    ratios: Float[Array, " n"]
    places: tuple[CoordinateIndex, ...] = eqx.field(static=True)

    @property
    def conservative(self) -> bool:
        return self.element.conservative

    @property
    def brief(self) -> bool:
        return self.element.brief

    @property
    def has_onset(self) -> bool:
        return self.element.has_onset

    def onset_rate(self, s: Float[Array, " n"], rates: Float[Array, " n"], sense: Array) -> Float[Array, ""]:
        return self.element.onset_rate(self.ratios @ s + self.zero, self.ratios @ rates, sense)

    def stiffest(self) -> JointEffort:
        return dataclasses.replace(self, element=self.element.stiffest())

    def efforts(self, t: Array, s: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, "1"]:
        return self._effort(t, s, rates)[None]

    def forces(self, t: Array, s: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.ratios * self._effort(t, s, rates)

    def deflection(self, t: Array, s: Float[Array, " n"]) -> Float[Array, " m"]:
        del t
        return self.element.deflection(self.ratios @ s + self.zero)

    def potential(self, s: Float[Array, " n"]) -> Float[Array, ""]:
        return self.element.stored_energy(self.ratios @ s + self.zero)

    def _effort(self, t: Array, s: Array, rates: Array) -> Float[Array, ""]:
        return self.element.effort(t, self.ratios @ s + self.zero, self.ratios @ rates)


class JointFeedback(AbstractJointCoordinateForce):
    """Forces along joint coordinates, or linear combinations of them, as functions of all of them.

    - `element`: the forces. - `zeros`: its coordinates where those of the joints are zero.
    - `ratios`: coefficients of the joint coordinates, a row for each coordinate of the element.
    """

    element: Feedback
    zeros: Float[Array, " n"]
    ratios: Float[Array, "n places"]
    places: tuple[CoordinateIndex, ...] = eqx.field(static=True)

    @property
    def conservative(self) -> bool:
        return False

    @property
    def brief(self) -> bool:
        return self.element.brief

    def stiffest(self) -> JointFeedback:
        return self

    def efforts(self, t: Array, s: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " k"]:
        return self.element.efforts(t, self.ratios @ s + self.zeros, self.ratios @ rates)

    def forces(self, t: Array, s: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " n"]:
        return self.efforts(t, s, rates) @ self.ratios

    def deflection(self, t: Array, s: Float[Array, " n"]) -> Float[Array, "0"]:
        del t, s
        return jnp.zeros(0)

    def potential(self, s: Float[Array, " n"]) -> Float[Array, ""]:
        return jnp.zeros(())


def with_forces(
    to: Vector, along: Sequence[AbstractJointCoordinateForce], t: Array, points: Sequence[Point], v: Vector
) -> Vector:
    """Generalised forces plus those of `along`; `points` are the coordinates of all joints."""
    for kind in _batches(along):
        to = add_entries(to, kind.each(lambda one, s, rates: one.forces(t, s, rates), points, v), kind.columns)
    return to


def with_slopes(
    to: Array,
    along: Sequence[AbstractJointCoordinateForce],
    t: Array,
    points: Sequence[Point],
    v: Vector,
    *,
    of_rates: bool,
) -> Array:
    """A matrix minus the derivatives of the forces with respect to the coordinates, or to their rates."""

    def slope(one: AbstractJointCoordinateForce, s: Array, rates: Array) -> Float[Array, "n n"]:
        return jax.jacfwd(one.forces, 2 if of_rates else 1)(t, s, rates)

    for kind in _batches(along):
        columns = kind.columns
        to = add_entries(to, -kind.each(slope, points, v), columns[:, :, None], columns[:, None, :])
    return to


def onset_rate(
    along: Sequence[AbstractJointCoordinateForce], points: Sequence[Point], v: Vector, sense: Array
) -> Float[Array, ""]:
    """The largest of all forces; 0 without any that has one."""
    some = [one for one in along if one.has_onset]
    rate = lambda one, s, rates: one.onset_rate(s, rates, sense)  # noqa: E731
    rates = [jnp.max(kind.each(rate, points, v)) for kind in _batches(some)]
    return jnp.max(jnp.stack(rates)) if rates else jnp.zeros(())


def map_forces(
    along: Sequence[AbstractJointCoordinateForce], function: Callable[..., Array], points: Sequence[Point], v: Vector
) -> RaggedRows:
    """`function(one, s, rates)` of all forces."""
    return RaggedRows.of([(kind.numbers, kind.each(function, points, v)) for kind in _batches(along)])


def potential(along: Sequence[AbstractJointCoordinateForce], points: Sequence[Point], v: Vector) -> Float[Array, ""]:
    """The sum of all potentials, in their order."""
    return _total(map_forces(along, lambda one, s, rates: one.potential(s)[None], points, v).flat)


@jax.jit
def _total(values: Float[Array, " n"]) -> Float[Array, ""]:
    return sum(values, start=jnp.zeros(()))


class _ForceBatch(NamedTuple):
    """Forces that differ only in numbers and places, evaluated as one batch.

    - `elements`: stacked, with a leading axis. - `places`: those of each. - `numbers`: their indices among all forces.
    """

    elements: AbstractJointCoordinateForce
    places: tuple[tuple[CoordinateIndex, ...], ...]
    numbers: list[int]

    @property
    def columns(self) -> np.ndarray:
        """Numbers of their velocities, shape (elements, n)."""
        return np.array([_columns(places) for places in self.places])

    def each(self, function: Callable[..., Array], points: Sequence[Point], v: Vector) -> Array:
        """`function(one, s, rates)` of all elements, with a leading axis."""
        s = coordinate_values(points, tuple(itertools.chain(*self.places))).reshape(self.columns.shape)
        return jax.vmap(function)(self.elements, s, take(v, self.columns))


def _batches(along: Sequence[AbstractJointCoordinateForce]) -> list[_ForceBatch]:
    bare = [(dataclasses.replace(one, places=()), len(one.places)) for one in along]
    return [
        _ForceBatch(_stack([bare[k][0] for k in numbers]), tuple(along[k].places for k in numbers), numbers)
        for numbers in structural_groups(bare)
    ]


@jax.jit
def _stack(trees: list[Any]) -> Any:
    return jax.tree.map(lambda *leaves: jnp.stack(leaves), *trees)


def _columns(places: Sequence[CoordinateIndex]) -> np.ndarray:
    return np.array([place.velocity for place in places])


def coordinate_values(points: Sequence[Point], places: Sequence[CoordinateIndex]) -> Float[Array, " n"]:
    """Joint coordinates at the given places."""
    links = sorted({place.link for place in places})
    firsts = dict(zip(links, np.cumsum([0, *(len(points[link]) for link in links)]), strict=False))
    numbers = np.array([firsts[place.link] + place.component for place in places])
    return take(jnp.concatenate([points[link] for link in links]), numbers)


class JointRotor(Module):
    """An inertia along a joint coordinate. - `place`: number of its velocity in v."""

    inertia: Float[Array, ""]
    place: int = eqx.field(static=True)
