"""Stacked bodies and elements of one kind, for batched evaluation."""

from __future__ import annotations

import abc
import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.primitives.row_loop import map_rows
from polhode.linalg.blocks import Blocks, Indices
from polhode.linalg.known_places import take
from polhode.modules import Module
from polhode.multibody.formulations.base import AbstractFormulation, AbstractFrame
from polhode.multibody.mechanism.angles import near
from polhode.multibody.mechanism.elements import AbstractConstraintElement, AbstractForceElement
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists, Wrench
from polhode.spaces.base import Point, Vector


class AbstractNodeGroup(Module):
    """Nodes at which elements end."""

    @property
    @abc.abstractmethod
    def looped(self) -> bool:
        """Whether elements are evaluated row by row."""

    @abc.abstractmethod
    def frame(self, node: int) -> AbstractFrame:
        """The moving frame of a node, by number."""


class BodyGroup(AbstractNodeGroup):
    """Bodies with the same coordinates.

    Here and below `looped` groups are evaluated row by row (`polhode.compiler.primitives.row_loop`), others by vmap.

    - `mass`, `inertia`: shapes (count,) and (count, 3, 3).
    - `columns`: numbers of their velocities in v, shape (count, n).
    """

    formulation: AbstractFormulation
    mass: Float[Array, " count"]
    inertia: Float[Array, "count 3 3"]
    columns: Indices = eqx.field(static=True)
    looped: bool = eqx.field(static=True, default=False)

    @property
    def count(self) -> int:
        return self.columns.numbers.shape[0]

    def frame(self, node: int) -> AbstractFrame:
        return self.formulation.at(node)

    @property
    def rows(self) -> int:
        """Number of their nodes, a row of a `Motion` each: those of a body are consecutive, the body first."""
        return self.count * self.formulation.nodes

    @property
    def weight(self) -> Float[Array, " rows"]:
        """The gravitational mass; zero for generalised coordinates, and for other nodes than bodies themselves."""
        return self._of_rows(self.mass if self.formulation.n > 1 else jnp.zeros_like(self.mass))

    @property
    def moving_mass(self) -> Float[Array, " rows"]:
        """The inertial mass; zero for integrals, which have no kinetic energy."""
        return self._of_rows(self.mass if self.energetic else jnp.zeros_like(self.mass))

    @property
    def rigid_inertia(self) -> Float[Array, "rows 3 3"]:
        """Moments of inertia; zero where they depend on deformations, as with `formulation.deforms`."""
        return self._of_rows(jnp.zeros_like(self.inertia) if self.formulation.deforms else self.inertia)

    def _of_rows(self, values: Float[Array, "count ..."]) -> Float[Array, "rows ..."]:
        """Values of the bodies in their rows, zero in those of other nodes."""
        if self.formulation.nodes == 1:
            return values
        rows = jnp.zeros((self.count, self.formulation.nodes, *values.shape[1:]))
        return rows.at[:, 0].set(values).reshape(-1, *values.shape[1:])

    @property
    def energetic(self) -> bool:
        """Whether their motion has kinetic energy, unlike that of integrals."""
        return self.formulation.energetic

    def velocities(self, v: Vector) -> Float[Array, "count n"]:
        """The part of v that belongs to the group, a row for each body."""
        numbers = self.columns.numbers
        return v[numbers[0, 0] : numbers[-1, -1] + 1].reshape(numbers.shape)

    def poses(self, points: Point) -> Pose:
        """Poses of all nodes."""
        return self._rows(lambda frame: jax.vmap(frame.pose)(points))

    def twists(self, points: Point, v: Vector) -> Twist:
        """Twists of all nodes."""
        return self._rows(lambda frame: jax.vmap(frame.twist)(points, self.velocities(v)))

    def _rows(self, of: Callable[[AbstractFrame], Any]) -> Any:
        parts = [of(self.formulation.at(node)) for node in range(self.formulation.nodes)]
        if len(parts) == 1:
            return parts[0]
        return jax.tree.map(lambda *a: jnp.stack(a, axis=1).reshape(-1, *a[0].shape[1:]), *parts)

    def loads(self, rows: Wrench) -> Wrench:
        """Loads on all nodes as `formulation.force` takes them, body by body."""
        nodes = self.formulation.nodes
        return rows if nodes == 1 else jax.tree.map(lambda a: a.reshape(self.count, nodes, 3), rows)

    def relative_energy(self, points: Point, v: Vector) -> Float[Array, ""]:
        """Kinetic energy relative to the centres of mass."""
        return jnp.sum(jax.vmap(self.formulation.relative_energy)(points, self.velocities(v), self.inertia))

    def strain_energy(self, points: Point) -> Float[Array, ""]:
        """Energy stored in deformation."""
        return jnp.sum(jax.vmap(self.formulation.strain_energy)(points))

    def spin(self, points: Point, v: Vector) -> Float[Array, "3"]:
        """Angular momenta about the centres of mass, in the inertial frame, added up."""
        spins = jax.vmap(lambda q, u, J: self.formulation.pose(q).R @ self.formulation.spin(q, u, J))
        return jnp.sum(spins(points, self.velocities(v), self.inertia), axis=0)

    def each(self, function: Callable[..., Any], *arguments: Any) -> Any:
        """`function` of the arguments, mass and inertia of every body."""
        return map_rows(lambda _, *row: function(*row), None, *arguments, self.mass, self.inertia, loop=self.looped)

    def blocks(self, values: Float[Array, "count n n"] | None) -> tuple[Blocks, ...]:
        """Diagonal blocks of a matrix, none for None."""
        return () if values is None else (Blocks(values, self.columns, self.columns),)


class Slot(Module):
    """One end of the elements of a group: the body at this end, for each element.

    - `group`: number of the body group; None if this end is the ground.
    - `members`: number of the body within its group, for each element.
    - `nodes`: number of the row of a `Motion`.
    - `columns`: numbers of its velocities, shape (elements, n).
    - `node`: which of the nodes of the body it is; 0 for itself.
    """

    group: int | None = eqx.field(static=True)
    members: Indices = eqx.field(static=True)
    nodes: Indices = eqx.field(static=True)
    columns: Indices = eqx.field(static=True)
    node: int = eqx.field(static=True, default=0)

    def frame(self, bodies: Sequence[AbstractNodeGroup]) -> AbstractFrame:
        """The moving frame of the slot: the body of its group, or a node on it."""
        return bodies[self.group or 0].frame(self.node)


class Motion(Module):
    """Poses and, where needed, twists of all bodies and their nodes, with the ground as the last row."""

    poses: Pose
    twists: Twist | None = None

    def at(self, slots: tuple[Slot, ...]) -> Poses:
        """Poses of the nodes of all elements, stacked for each slot."""
        return tuple(jax.tree.map(lambda a, s=s: take(a, s.nodes.numbers), self.poses) for s in slots)

    def twists_at(self, slots: tuple[Slot, ...]) -> Twists:
        return tuple(jax.tree.map(lambda a, s=s: take(a, s.nodes.numbers), self.twists) for s in slots)


class JointGroup(Module):
    """Constraint elements of one kind between bodies of the same kinds.

    - `rows`: numbers of their constraints, shape (elements, components).
    - `components`: which components of an element's residual are imposed; all unless redundant ones were dropped.
    - `turns`: numbers of the counted angles, shape (elements,), for each that an element reads.
    """

    elements: AbstractConstraintElement
    slots: tuple[Slot, ...]
    rows: Indices = eqx.field(static=True)
    components: tuple[int, ...] = eqx.field(static=True)
    looped: bool = eqx.field(static=True, default=False)
    turns: tuple[Indices, ...] = eqx.field(static=True, default=())

    def near(self, turns: Float[Array, " k"]) -> JointGroup:
        """The elements with their angles read near those that are counted."""
        return dataclasses.replace(self, elements=near(self.elements, _rows(turns, self.turns))) if self.turns else self

    @property
    def nonholonomic(self) -> tuple[int, ...]:
        """Which of the imposed components are nonholonomic."""
        first = self.elements.size - self.elements.slips
        return tuple(k for k, component in enumerate(self.components) if component >= first)

    @property
    def relative(self) -> bool:
        """Whether the elements are known to constrain relative poses of two bodies only."""
        return len(self.slots) == 2 and self.elements.relative and all(slot.group is not None for slot in self.slots)

    def residual(self, element: AbstractConstraintElement, t: Array, poses: Poses) -> Float[Array, " components"]:
        return self._imposed_components(element.residual(t, poses))

    def rate(
        self, element: AbstractConstraintElement, t: Array, poses: Poses, twists: Twists
    ) -> Float[Array, " components"]:
        return self._imposed_components(element.rate(t, poses, twists))

    def _imposed_components(self, value: Float[Array, " k"]) -> Float[Array, " components"]:
        return value if len(self.components) == value.shape[0] else value[np.array(self.components)]

    def residuals(self, t: Array, motion: Motion) -> Float[Array, "elements components"]:
        return self._each(lambda t, e, p: self.residual(e, t, p), t, motion.at(self.slots))

    def sides(self, t: Array, motion: Motion) -> Float[Array, "elements sides"]:
        """Cosines that are positive where the joints are closed on the intended assembly branch."""
        return jax.vmap(lambda e, p: e.sides(t, p))(self.elements, motion.at(self.slots))

    def rates(self, t: Array, motion: Motion) -> Float[Array, "elements components"]:
        """Time derivatives of the residuals, and nonholonomic components."""
        rate = lambda t, e, p, w: self.rate(e, t, p, w)  # noqa: E731
        return self._each(rate, t, motion.at(self.slots), motion.twists_at(self.slots))

    def _each(self, function: Callable[..., Any], t: Array, *stacked: Any) -> Any:
        """`function` of t, every element and its rows of the other arguments."""
        return map_rows(function, t, self.elements, *stacked, loop=self.looped)

    def gradients(self, t: Array, motion: Motion) -> tuple[Float[Array, "elements components 6"], ...]:
        """Derivatives of the residuals along (rotation, translation) of each node, for the slots with bodies."""
        on_bodies = [k for k, slot in enumerate(self.slots) if slot.group is not None]

        def gradient(t: Array, element: AbstractConstraintElement, poses: Poses) -> tuple[Array, ...]:
            whole = element.gradients(t, poses)
            every = len(self.components) == element.size
            return tuple(whole[k] if every else whole[k][np.array(self.components)] for k in on_bodies)

        return self._each(gradient, t, motion.at(self.slots))


class ForceGroup(Module):
    """Force elements of one kind between bodies of the same kinds.

    - `turns`: numbers of the counted angles, shape (elements,), for each that an element reads.
    """

    elements: AbstractForceElement
    slots: tuple[Slot, ...]
    looped: bool = eqx.field(static=True, default=False)
    turns: tuple[Indices, ...] = eqx.field(static=True, default=())

    def near(self, turns: Float[Array, " k"]) -> ForceGroup:
        """The elements with their angles read near those that are counted."""
        return dataclasses.replace(self, elements=near(self.elements, _rows(turns, self.turns))) if self.turns else self

    @property
    def relative(self) -> bool:
        """Whether their potential is known to depend on the relative pose of two nodes only."""
        return len(self.slots) == 2 and self.elements.relative

    @property
    def inner(self) -> bool:
        """Whether the loads of each element on its bodies are known to cancel."""
        return self.elements.relative and all(slot.group is not None for slot in self.slots)

    def wrenches(self, t: Array, motion: Motion) -> tuple[Wrench, ...]:
        """Loads on the nodes of all elements, stacked for each slot."""
        arguments = self.elements, motion.at(self.slots), motion.twists_at(self.slots)
        return map_rows(lambda t, e, p, w: e.wrenches(t, p, w), t, *arguments, loop=self.looped)

    def onset_rate(self, motion: Motion, sense: Array) -> Float[Array, ""]:
        """The largest of all elements; see `AbstractForceElement.rate_to_onset`."""
        arguments = self.elements, motion.at(self.slots), motion.twists_at(self.slots)
        return jnp.max(map_rows(lambda x, e, p, w: e.rate_to_onset(p, w, x), sense, *arguments, loop=self.looped))

    def potential(self, t: Array, motion: Motion) -> Float[Array, ""]:
        arguments = self.elements, motion.at(self.slots)
        return jnp.sum(map_rows(lambda t, e, p: e.potential(t, p), t, *arguments, loop=self.looped))


def _rows(turns: Float[Array, " k"], numbers: tuple[Indices, ...]) -> list[Array]:
    return [take(turns, of.numbers) for of in numbers]


def members(points: tuple[Point, ...], slot: Slot) -> Point:
    """Coordinates of the bodies at one end of all elements."""
    if slot.group is None:
        return None
    return jax.tree.map(lambda a: take(a, slot.members.numbers), points[slot.group])


def stack_trees(trees: Sequence[Any]) -> Any:
    """Pytrees of equal structure stacked along a leading axis."""
    return jax.tree.map(lambda *leaves: checks.stack(leaves), *trees)
