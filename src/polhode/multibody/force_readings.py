"""Loads of the forces of a model, by name, as functions of states of its system."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.elements import AbstractForceElement
from polhode.multibody.nodes_by_name import NodesByName, share, stacked
from polhode.multibody.poses import Wrench
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
        forces, moments = jnp.zeros((self.rows, 3)), jnp.zeros((self.rows, 3))
        efforts: list[Array] = []
        powers: list[Array] = []
        measures: list[Array] = []
        for force in self.forces:
            strengths, bodies, wrenches = _exerted(force, where, t, q, v)
            efforts += strengths
            measures += list(_measured(force, where, t, q))
            power = jnp.zeros(())
            for row, body, wrench in zip(force.rows, bodies, wrenches, strict=True):
                if row < 0:
                    continue
                forces = forces.at[row].add(wrench.force)
                moments = moments.at[row].add(where.pose(body).R @ wrench.torque)
                (twist,) = where.twists((body,))
                power = power + wrench.force @ twist.u + wrench.torque @ twist.omega
            powers.append(power)
        return ForceValues(forces, moments, stacked(efforts), stacked(powers), stacked(measures))


def _measured(force: NamedForce, where: NodesByName, t: Array, q: Point) -> Float[Array, " m"]:
    """The lengths and angles of a force; the tree counts turns, which poses don't tell."""
    tree = where.system.coordinates
    if force.place >= 0 and isinstance(tree, JointTree):
        return tree.measured(force.place, t, q)
    return force.element.measured(t, where.poses(force.bodies))


def _exerted(
    force: NamedForce, where: NodesByName, t: Array, q: Point, v: Vector
) -> tuple[list[Array], tuple[str, ...], tuple[Wrench, ...]]:
    """Forces along the coordinates of a force, its bodies, and the loads on them."""
    tree = where.system.coordinates
    if force.place >= 0 and isinstance(tree, JointTree):
        strengths = list(tree.strengths(force.place, t, q, v))
        loads = [c.coordinate.wrenches(where.poses(c.ends), s) for c, s in zip(force.along, strengths, strict=True)]
        return strengths, force.bodies, tuple(wrench for each in loads for wrench in each)
    wrenches = force.element.wrenches(t, where.poses(force.bodies), where.twists(force.bodies))
    strengths, first = [], 0
    for c in force.along:
        last = first + len(c.ends)
        strengths.append(share(wrenches[first:last], c.coordinate.wrenches(where.poses(c.ends), 1.0)))
        first = last
    return strengths, force.bodies, wrenches
