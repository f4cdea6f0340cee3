"""Loads of the forces of a model, by name, as functions of states of its system."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.elements import AbstractForceElement
from polhode.multibody.nodes_by_name import NodesByName, share, stacked
from polhode.multibody.poses import Poses, Twists, Wrench
from polhode.multibody.system import MultibodySystem
from polhode.multibody.tree.coordinates import JointTree
from polhode.spaces.base import Point, Vector
from polhode.systems.base import Observable

if TYPE_CHECKING:
    from polhode.joints.relative import AbstractRelativeCoordinate


class ForceAlong(eqx.Module):
    """A relative coordinate that a force acts along, of the bodies `ends`."""

    coordinate: AbstractRelativeCoordinate
    ends: tuple[str, ...] = eqx.field(static=True)


class NamedForce(eqx.Module):
    """A force that is read.

    - `element`: the force on `bodies`. - `along`: the coordinates that it acts along; none for other forces.
    - `rows`: of each of its bodies, the row of its load among `ForceValues`; -1 for what is no body.
    - `place`: number of the force among those along coordinates of a tree; -1 where it acts on the bodies.
    """

    element: AbstractForceElement
    along: tuple[ForceAlong, ...]
    bodies: tuple[str, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)
    place: int = eqx.field(static=True)


class ForceValues(NamedTuple):
    """Loads on the bodies of all forces, moments about the centres of mass, both in the inertial frame; leading axis r.

    And the forces along their coordinates, shape (k,), the powers of all forces, shape (f,), and the lengths and angles
    that their laws are written in, shape (m,).
    """

    force_forces: Float[Array, "r 3"]
    force_moments: Float[Array, "r 3"]
    force_efforts: Float[Array, " k"]
    force_powers: Float[Array, " f"]
    force_measures: Float[Array, " m"]


class ForceReadings(eqx.Module):
    """Forces that are read. - `rows`: how many loads they have."""

    forces: tuple[NamedForce, ...]
    rows: int = eqx.field(static=True)

    def observables(self, system: MultibodySystem) -> dict[str, Observable]:
        """All `values` as functions of states (q, v), where there are some."""
        read: Callable[..., Any] = lambda t, state: self.values(system, t, *state)._asdict()  # noqa: E731
        return {"force_loads": read} if self.forces else {}

    def values(self, system: MultibodySystem, t: Array, q: Point, v: Vector) -> ForceValues:
        """Loads of all forces in a state."""
        where = NodesByName(system, system.motion(q, v))
        found = [_exerted(force, where, t, q, v) for force in self.forces]
        rows = np.array([row for force in self.forces for row in force.rows], dtype=int)
        loads = _side_by_side([load for one in found for load in one.loads])
        forces, moments = jnp.zeros((2, self.rows, 3)).at[:, rows[rows >= 0]].add(loads[:, rows >= 0])
        return ForceValues(
            forces,
            moments,
            stacked([strength for one in found for strength in one.strengths]),
            stacked([one.power for one in found]),
            stacked([measure for one in found for measure in one.measures]),
        )


class _Exerted(NamedTuple):
    """What a force does.

    - `loads`: on its bodies, force and moment in the inertial frame. - `power`: on all bodies.
    - `strengths`: along its coordinates. - `measures`: lengths or angles that its law is written in.
    """

    loads: tuple[tuple[Array, Array], ...]
    power: Array
    strengths: tuple[Array, ...]
    measures: tuple[Array, ...]


def _exerted(force: NamedForce, where: NodesByName, t: Array, q: Point, v: Vector) -> _Exerted:
    tree = where.system.coordinates
    coordinates = tuple(c.coordinate for c in force.along)
    moving = where.poses(force.bodies), where.twists(force.bodies)
    if force.place < 0 or not isinstance(tree, JointTree):
        return _on_bodies(force.element, coordinates, t, *moving)
    # The tree counts turns, which poses don't tell.
    strengths = tuple(tree.strengths(force.place, t, q, v))
    return _along(coordinates, strengths, tuple(tree.measured(force.place, t, q)), *moving)


# Traced once for all forces that are alike.
@eqx.filter_jit
def _on_bodies(
    element: AbstractForceElement,
    coordinates: tuple[AbstractRelativeCoordinate, ...],
    t: Array,
    poses: Poses,
    twists: Twists,
) -> _Exerted:
    wrenches = element.wrenches(t, poses, twists)
    strengths = tuple(
        share(wrenches[2 * k : 2 * k + 2], c.wrenches(poses[2 * k : 2 * k + 2], 1.0)) for k, c in enumerate(coordinates)
    )
    return _Exerted(*_loads(wrenches, poses, twists), strengths, tuple(element.measured(t, poses)))


@eqx.filter_jit
def _along(
    coordinates: tuple[AbstractRelativeCoordinate, ...],
    strengths: tuple[Array, ...],
    measures: tuple[Array, ...],
    poses: Poses,
    twists: Twists,
) -> _Exerted:
    ends = [poses[2 * k : 2 * k + 2] for k in range(len(coordinates))]
    each = [c.wrenches(at, s) for c, at, s in zip(coordinates, ends, strengths, strict=True)]
    return _Exerted(*_loads(tuple(itertools.chain(*each)), poses, twists), strengths, measures)


def _loads(wrenches: tuple[Wrench, ...], poses: Poses, twists: Twists) -> tuple[tuple[tuple[Array, Array], ...], Array]:
    """Forces and moments in the inertial frame, and the power."""
    loads = tuple((w.force, pose.R @ w.torque) for w, pose in zip(wrenches, poses, strict=True))
    powers = [w.force @ twist.u + w.torque @ twist.omega for w, twist in zip(wrenches, twists, strict=True)]
    return loads, sum(powers, start=jnp.zeros(()))


def _side_by_side(loads: list[tuple[Array, Array]]) -> Float[Array, "2 n 3"]:
    """Forces, and moments."""
    return jnp.stack([jnp.stack(part) for part in zip(*loads, strict=True)]) if loads else jnp.zeros((2, 0, 3))
