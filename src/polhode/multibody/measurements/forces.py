"""Loads of the forces of a model, by name, as functions of states of its system."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.known_places import take
from polhode.modules import Module
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.measurements.body_kinematics import NodesByName, load_strength, stack_or_empty
from polhode.multibody.mechanism.angle_references import AngleReference
from polhode.multibody.mechanism.angles import near
from polhode.multibody.mechanism.batches import BatchResult, in_order, vmap_alike
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import Point, Vector
from polhode.systems.base import Observable

if TYPE_CHECKING:
    from polhode.multibody.mechanism.coordinate_forces import AbstractRelativeCoordinate


class ForceAlong(Module):
    """A relative coordinate that a force acts along, of the bodies `ends`."""

    coordinate: AbstractRelativeCoordinate
    ends: tuple[str, ...] = eqx.field(static=True)


class NamedForce(Module):
    """A measured force.

    - `element`: the force on `bodies`. - `along`: the coordinates along which it acts; empty for other forces.
    - `rows`: row of the load on each of its bodies in `ForceValues`; -1 for nodes that are no bodies.
    - `place`: number of the force among those along coordinates of a tree; -1 where it acts on the bodies.
    - `references`: sources of the turns of the angles of `element`.
    """

    element: AbstractForceElement
    along: tuple[ForceAlong, ...]
    references: tuple[AngleReference, ...]
    bodies: tuple[str, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)
    place: int = eqx.field(static=True)


class ForceValues(NamedTuple):
    """Loads on the bodies of all forces, moments about the centres of mass, both in the inertial frame; leading axis r.

    And the forces along their coordinates, shape (k,), the powers of all forces, shape (f,), and the lengths and angles
    of their laws, shape (m,).
    """

    force_forces: Float[Array, "r 3"]
    force_moments: Float[Array, "r 3"]
    force_efforts: Float[Array, " k"]
    force_powers: Float[Array, " f"]
    force_measures: Float[Array, " m"]


class ForceMeasurements(Module):
    """Measured forces. - `rows`: number of their loads."""

    forces: tuple[NamedForce, ...]
    rows: int = eqx.field(static=True)

    def observables(self, system: MultibodySystem) -> dict[str, Observable]:
        """All `values` as functions of states (q, v); empty without forces."""
        evaluate: Callable[..., Any] = lambda t, state: self.values(system, t, *state)._asdict()  # noqa: E731
        return {"force_loads": evaluate} if self.forces else {}

    def values(self, system: MultibodySystem, t: Array, q: Point, v: Vector) -> ForceValues:
        """Loads of all forces in a state."""
        if not self.forces:
            return ForceValues(jnp.zeros((0, 3)), jnp.zeros((0, 3)), *(jnp.zeros(0),) * 3)
        where = NodesByName(system, system.motion(q, v))
        tree = system.coordinates.joint_tree
        inside = [k for k, force in enumerate(self.forces) if force.place >= 0 and isinstance(tree, JointTree)]
        results = self._on_bodies([k for k in range(len(self.forces)) if k not in inside], where, t, q)
        if inside:
            assert isinstance(tree, JointTree)
            results += self._along(inside, where, tree, t, *system.coordinates.in_joint_tree(q, v))
        rows = np.array([row for force in self.forces for row in force.rows], dtype=int)
        loads = _join(results, "loads")
        total = jnp.zeros((self.rows, 2, 3)).at[rows[rows >= 0]].add(take(loads, np.flatnonzero(rows >= 0)))
        return ForceValues(
            total[:, 0], total[:, 1], *(_join(results, name) for name in ("strengths", "powers", "measures"))
        )

    def _on_bodies(self, numbers: list[int], where: NodesByName, t: Array, q: Point) -> list[BatchResult]:
        """Loads and powers of forces that act on their bodies."""
        forces = [self.forces[k] for k in numbers]

        def effect(
            part: tuple[AbstractForceElement, Coordinates], poses: Poses, twists: Twists, real: Array
        ) -> _ForceEffect:
            element, coordinates = part
            wrenches = element.wrenches(t, poses, twists)
            strengths = [
                load_strength(wrenches[own], c.wrenches(poses[own], 1.0)) for c, own in _with_ends(coordinates)
            ]
            return _effect_of(wrenches, poses, twists, real, stack_or_empty(strengths), element.measurements(t, poses))

        elements = [near(f.element, [r.value(where.system, q) for r in f.references]) for f in forces]
        parts = [(element, _coordinates(force)) for element, force in zip(elements, forces, strict=True)]
        results = vmap_alike(effect, parts, lambda members: _node_motion(where, [forces[k] for k in members]))
        return [BatchResult([numbers[k] for k in members], values) for members, values in results]

    def _along(
        self, numbers: list[int], where: NodesByName, tree: JointTree, t: Array, q: Point, v: Vector
    ) -> list[BatchResult]:
        """Loads and powers of forces along coordinates of a tree, which contain the turns that poses lack."""
        forces = [self.forces[k] for k in numbers]
        strengths, measures = tree.strengths(t, q, v), tree.measures(t, q)

        def effect(
            coordinates: Coordinates, poses: Poses, twists: Twists, real: Array, strengths: Array, measures: Array
        ) -> _ForceEffect:
            own = [c.wrenches(poses[e], s) for (c, e), s in zip(_with_ends(coordinates), strengths, strict=True)]
            return _effect_of(tuple(itertools.chain(*own)), poses, twists, real, strengths, measures)

        def rows(members: list[int]) -> tuple[Any, ...]:
            places = [forces[k].place for k in members]
            return *_node_motion(where, [forces[k] for k in members]), strengths.rows(places), measures.rows(places)

        # Forces of equal structure may have different numbers of measures.
        parts = [(_coordinates(force), int(measures.sizes[force.place])) for force in forces]
        results = vmap_alike(lambda part, *row: effect(part[0], *row), parts, rows)
        return [BatchResult([numbers[k] for k in members], values) for members, values in results]


Coordinates: TypeAlias = "tuple[tuple[AbstractRelativeCoordinate, int], ...]"
"""Coordinates along which a force acts, each with the number of its bodies."""


class _ForceEffect(NamedTuple):
    """Effects of a force.

    - `loads` (b, 2, 3): on its b bodies, force and moment in the inertial frame. - `strengths`: along its coordinates.
    - `powers` (1,): on all bodies. - `measures`: lengths or angles of its law.
    """

    loads: Float[Array, "b 2 3"]
    strengths: Float[Array, " k"]
    powers: Float[Array, "1"]
    measures: Float[Array, " m"]


def _effect_of(
    wrenches: tuple[Wrench, ...], poses: Poses, twists: Twists, real: Array, strengths: Array, measures: Array
) -> _ForceEffect:
    """The effects of a force; `real`: 1 for bodies, 0 for the ground and for coordinates such as integrals."""
    loads = [jnp.stack((w.force, pose.R @ w.torque)) for w, pose in zip(wrenches, poses, strict=True)]
    powers = [w.force @ twist.u + w.torque @ twist.omega for w, twist in zip(wrenches, twists, strict=True)]
    return _ForceEffect(jnp.stack(loads), strengths, (real @ jnp.stack(powers))[None], measures)


def _node_motion(where: NodesByName, forces: list[NamedForce]) -> tuple[Any, ...]:
    """Poses and twists of the nodes of forces, and whether these are bodies."""
    real = jnp.asarray([[float(row >= 0) for row in force.rows] for force in forces])
    return *where.batch([force.bodies for force in forces]), real


def _coordinates(force: NamedForce) -> Coordinates:
    return tuple((c.coordinate, len(c.ends)) for c in force.along)


def _with_ends(coordinates: Coordinates) -> Iterator[tuple[AbstractRelativeCoordinate, slice]]:
    """Each coordinate with the slice of its bodies among those of the force."""
    first = 0
    for coordinate, count in coordinates:
        yield coordinate, slice(first, first + count)
        first += count


def _join(results: list[BatchResult], name: str) -> Array:
    """One field of the results of all forces, in their order."""
    return in_order([(members, getattr(values, name)) for members, values in results])
