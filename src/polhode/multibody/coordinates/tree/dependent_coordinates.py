"""Joint coordinates some of which are linear functions of others."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import Matrix, dense_block, to_dense
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.known_places import add_entries, take
from polhode.linalg.solver_choice import tree_solver
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.base import AbstractCoordinates
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.coordinates.tree.joint_forces import CoordinateIndex, named_coordinates
from polhode.multibody.coordinates.tree.mass import Shares
from polhode.multibody.mechanism.groups import Motion
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.spaces.constants import Constants
from polhode.spaces.linear import Rn
from polhode.spaces.products import AbstractProduct, product
from polhode.systems.mechanical.tangent import Tangent, Weights


class ReducedTree(AbstractCoordinates):
    r"""A tree of joints some coordinates of which are linear functions of others: q = G r + g, $\dot q = G\dot r$.

    With G constant its equations are those of the tree, multiplied by Gᵀ: $G^TMG\,\ddot r = G^Tf$.

    - `tree`: with all coordinates, on which forces, rotors and weights act.
    - `followers`: dependent coordinates. Joints with others keep these, in their order.
    - `rows`, `leaders`, `ratios`: the entries of G in the rows of followers: number of the follower, coordinate of the
      tree, value. - `offsets`: the components of g that belong to followers.
    """

    tree: JointTree
    ratios: Float[Array, " k"]
    offsets: Float[Array, " f"]
    followers: tuple[CoordinateIndex, ...] = eqx.field(static=True)
    rows: tuple[int, ...] = eqx.field(static=True)
    leaders: tuple[CoordinateIndex, ...] = eqx.field(static=True)

    @property
    def turns(self) -> int:
        return self.tree.turns

    # --- from the coordinates to those of the tree and back ---------------------------------------------------------

    @property
    def _dependent(self) -> np.ndarray:
        """Dependent velocities of the tree."""
        return np.array([place.velocity for place in self.followers])

    @property
    def _independent(self) -> np.ndarray:
        """Independent velocities of the tree, in order."""
        return np.setdiff1d(np.arange(self.tree.n), self._dependent)

    @property
    def _columns(self) -> np.ndarray:
        """Columns of the entries of G."""
        return np.searchsorted(self._independent, [place.velocity for place in self.leaders]).astype(int)

    def whole(self, q: Point) -> Point:
        """The coordinates of all joints of the tree."""
        own, of_link = iter(q), self._rows_of_links
        links = [(number, link.motion.space) for number, link in enumerate(self.tree.links) if link.motion.n]
        followers = {k: [self.followers[row].component for row in of_link.get(k, ())] for k, _ in links}
        points = {k: next(own) if independent_part(space, followers[k]) else None for k, space in links}
        values = self.offsets
        if self.leaders:
            earlier = lambda place: sum(k < place.component for k in followers[place.link])  # noqa: E731
            leader_values = [
                named_coordinates(points[place.link])[place.component - earlier(place)] for place in self.leaders
            ]
            values = add_entries(values, self.ratios * jnp.stack(leader_values), np.array(self.rows))
        joints = (
            _with_followers(space, points[k], followers[k], take(values, np.array(of_link[k])))
            if followers[k]
            else points[k]
            for k, space in links
        )
        return *joints, *own

    @property
    def _rows_of_links(self) -> dict[int, list[int]]:
        """Numbers of the followers of each link that has some."""
        rows: dict[int, list[int]] = {}
        for row, place in enumerate(self.followers):
            rows.setdefault(place.link, []).append(row)
        return rows

    def rates(self, v: Vector) -> Vector:
        """The velocities of all joints of the tree, G v."""
        values = jnp.zeros(len(self.followers))
        if self.leaders:
            values = add_entries(values, self.ratios * take(v, self._columns), np.array(self.rows))
        return take(jnp.concatenate((v, values)), np.argsort(np.concatenate((self._independent, self._dependent))))

    def _reduce_rows(self, rows: Array) -> Array:
        """Gᵀ times an array with a row for each velocity of the tree."""
        own = take(rows, self._independent)
        if not self.leaders:
            return own
        of_followers = take(rows, self._dependent[np.array(self.rows)])
        return add_entries(own, self.ratios.reshape(-1, *(1,) * (rows.ndim - 1)) * of_followers, self._columns)

    def _reduce_matrix(self, matrix: Matrix) -> Matrix:
        whole = to_dense(matrix, (self.tree.n, self.tree.n))
        return dense_block(self._reduce_rows(self._reduce_rows(whole).T).T)

    # --- quantities of the tree -------------------------------------------------------------------------------------

    @property
    def space(self) -> AbstractSpace:
        of_link = self._rows_of_links
        parts = [
            independent_part(link.motion.space, [self.followers[row].component for row in of_link.get(number, ())])
            for number, link in enumerate(self.tree.links)
            if link.motion.n
        ]
        turns = (Constants(self.turns),) if self.turns else ()
        return product(*(part for part in parts if part is not None), *turns)

    @property
    def n(self) -> int:
        return self.tree.n - len(self.followers)

    @property
    def screws(self) -> np.ndarray:
        # None of their velocities follows others.
        return np.searchsorted(self._independent, self.tree.screws)

    @property
    def names(self) -> tuple[str, ...]:
        return self.tree.names

    @property
    def shown(self) -> tuple[str, ...]:
        return self.tree.shown

    @property
    def inert(self) -> bool:
        return self.tree.inert

    @property
    def conservative(self) -> bool:
        return self.tree.conservative

    @property
    def has_strain_energy(self) -> bool:
        return self.tree.has_strain_energy

    @property
    def has_dependent_coordinates(self) -> bool:
        return True

    @property
    def has_own_loads(self) -> bool:
        return self.tree.has_own_loads

    @property
    def has_costly_tangent(self) -> bool:
        return True

    @property
    def brief(self) -> bool:
        return self.tree.brief

    @property
    def joint_tree(self) -> JointTree:
        return self.tree

    def in_joint_tree(self, q: Point, v: Vector) -> tuple[Point, Vector]:
        return self.whole(q), self.rates(v)

    @property
    def has_onsets(self) -> bool:
        return self.tree.has_onsets

    def onset_rate(self, q: Point, v: Vector, sense: Array) -> Float[Array, ""]:
        return self.tree.onset_rate(self.whole(q), self.rates(v), sense)

    def power(self, t: Array, q: Point, v: Vector) -> Float[Array, ""]:
        return self.tree.power(t, self.whole(q), self.rates(v))

    def without_loads(self) -> ReducedTree:
        return dataclasses.replace(self, tree=self.tree.without_loads())

    def in_loops(self) -> ReducedTree:
        return dataclasses.replace(self, tree=self.tree.in_loops())

    def stiffest(self) -> ReducedTree:
        return dataclasses.replace(self, tree=self.tree.stiffest())

    @property
    def masses(self) -> Float[Array, " rows"]:
        return self.tree.masses

    @property
    def inertias(self) -> Float[Array, "rows 3 3"]:
        return self.tree.inertias

    @property
    def energetic(self) -> np.ndarray:
        return self.tree.energetic

    @property
    def connected_rows(self) -> tuple[tuple[int, int], ...]:
        return self.tree.connected_rows

    def strain_energy(self, q: Point) -> Float[Array, ""]:
        return self.tree.strain_energy(self.whole(q))

    def joint_coordinate(
        self, q: Point, joint: str | None, name: str, bodies: tuple[str, ...]
    ) -> Float[Array, ""] | None:
        return self.tree.joint_coordinate(self.whole(q), joint, name, bodies)

    def joint_coordinates(self, q: Point) -> dict[tuple[str, str], Float[Array, ""]]:
        return self.tree.joint_coordinates(self.whole(q))

    def joint_rates(self, v: Vector) -> dict[tuple[str, str], Float[Array, ""]]:
        return self.tree.joint_rates(self.rates(v))

    def force_along(self, t: Array, q: Point, v: Vector, joint: str, name: str) -> Float[Array, ""] | None:
        return self.tree.force_along(t, self.whole(q), self.rates(v), joint, name)

    def motion(self, q: Point, v: Vector | None = None) -> Motion:
        """Poses and, with v, twists of all bodies and of the ground."""
        return self.tree.motion(self.whole(q), None if v is None else self.rates(v))

    def pose(self, q: Point, body: Body | str) -> Pose:
        """Position of the centre of mass and rotation matrix of one body."""
        return self.tree.pose(self.whole(q), body)

    def twist(self, q: Point, v: Vector, body: Body | str) -> Twist:
        """Angular velocity (body frame) and velocity (inertial frame) of one body."""
        return self.tree.twist(self.whole(q), self.rates(v), body)

    def columns(self, body: Body | str) -> np.ndarray:
        """Velocities of the joint that carries a body, or of those on which this joint depends."""
        return self._own_velocities([self.tree.columns(body)])[0]

    def _own_velocities(self, sets: Sequence[np.ndarray]) -> list[np.ndarray]:
        """For sets of velocities of the tree the numbers of those on which they depend."""
        independent, columns, led = self._independent, self._columns, self._dependent[np.array(self.rows, int)]
        own_velocities: list[np.ndarray] = []
        for of_tree in sets:
            own = np.searchsorted(independent, np.intersect1d(of_tree, independent))
            own_velocities.append(np.unique(np.concatenate((own, columns[np.isin(led, of_tree)]))))
        return own_velocities

    def kinetic_energy(self, q: Point, v: Vector) -> Float[Array, ""]:
        return self.tree.kinetic_energy(self.whole(q), self.rates(v))

    def weight(self, motion: Motion, gravity: Float[Array, "3"]) -> Float[Array, ""]:
        return self.tree.weight(motion, gravity)

    # --- matrices and forces ----------------------------------------------------------------------------------------

    def mass(self, q: Point) -> Matrix:
        if self.tree.looped:
            return self._reduce_matrix(self.tree.mass(self.whole(q)))
        of_links = self.tree.mass_along(self.whole(q), self._shares, self.n)
        (of_rotors,) = self._reduce_matrix(dense_block(jnp.diag(self.tree.armature)))
        return dense_block(of_links + of_rotors.values[0])

    @property
    def _shares(self) -> list[Shares]:
        """The velocities of each link, by independent ones."""
        components = np.array([place.component for place in self.followers])[np.array(self.rows, int)]
        shares: list[Shares] = []
        for number, link in enumerate(self.tree.links):
            rows = self._rows_of_links.get(number, [])
            own = np.setdiff1d(np.arange(link.first, link.last), self._dependent)
            places, numbers = own - link.first, np.searchsorted(self._independent, own)
            if not rows:
                shares.append(Shares(places, numbers))
                continue
            entries = np.flatnonzero(np.isin(self.rows, rows))
            ratios = jnp.concatenate((jnp.ones(own.size), take(self.ratios, entries)))
            numbers = np.concatenate((numbers, self._columns[entries]))
            shares.append(Shares(np.concatenate((places, components[entries])), numbers, ratios))
        return shares

    def momentum(self, q: Point, v: Vector) -> Vector:
        return self._reduce_rows(self.tree.momentum(self.whole(q), self.rates(v)))

    def force(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Vector:
        return self._reduce_rows(self.tree.force(mechanism, t, self.whole(q), self.rates(v)))

    def balance(self, mechanism: Mechanism, t: Array, q: Point, v: Vector, acceleration: Vector) -> Vector:
        whole = self.whole(q), self.rates(v), self.rates(acceleration)
        return self._reduce_rows(self.tree.balance(mechanism, t, *whole))

    def jacobian(self, mechanism: Mechanism, t: Array, q: Point) -> Matrix | None:
        blocks = self.tree.jacobian(mechanism, t, self.whole(q))
        if blocks is None:
            return None
        whole = to_dense(blocks, (sum(group.rows.numbers.size for group in mechanism.joints), self.tree.n))
        return dense_block(jax.vmap(self._reduce_rows)(whole))

    def stiffness(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix:
        return self._reduce_matrix(self.tree.stiffness(mechanism, t, self.whole(q), self.rates(v)))

    def damping(self, mechanism: Mechanism, t: Array, q: Point, v: Vector) -> Matrix:
        return self._reduce_matrix(self.tree.damping(mechanism, t, self.whole(q), self.rates(v)))

    def tangent(
        self, mechanism: Mechanism, t: Array, q: Point, v: Vector, increment: Vector | None, weights: Weights
    ) -> Tangent:
        whole = None if increment is None else self.rates(increment)
        sums = self.tree.tangent(mechanism, t, self.whole(q), self.rates(v), whole, weights)
        return Tangent(self._reduce_matrix(sums.matrix), self._reduce_rows(sums.magnified))

    def choose_solver(self, mechanism: Mechanism, m: int, compliant: bool) -> AbstractKKT:
        loops = self._own_velocities(self.tree.constrained_velocities(mechanism, m))
        return tree_solver(self.n, self.coupled_velocities(mechanism), loops, compliant=compliant)

    def coupled_velocities(self, mechanism: Mechanism) -> list[np.ndarray]:
        """Sets of velocities that M, C and K couple with each other."""
        return self._own_velocities(self.tree.coupled_velocities(mechanism))


def independent_part(space: AbstractSpace, followers: Sequence[int]) -> AbstractSpace | None:
    """The space of a joint's coordinates without some of those that have names; None if nothing is left."""
    if not followers:
        return space
    if isinstance(space, AbstractProduct):
        named, other = space.spaces
        rest = independent_part(named, followers)
        return other if rest is None else product(rest, other)
    blocks = np.delete(np.repeat(np.arange(len(space.blocks)), space.blocks), followers)
    return Rn(blocks.size, tuple(map(int, np.unique(blocks, return_counts=True)[1]))) if blocks.size else None


def _with_followers(space: AbstractSpace, point: Any, followers: Sequence[int], values: Array) -> Point:
    """The coordinates of a joint from its independent ones and the values of its followers."""
    if isinstance(space, AbstractProduct):
        named, other = (None, point) if len(followers) == space.spaces[0].dim else point
        return _with_followers(space.spaces[0], named, followers, values), other
    numbers = np.concatenate((np.setdiff1d(np.arange(space.dim), followers), followers))
    return take(values if point is None else jnp.concatenate((point, values)), np.argsort(numbers))


def reduce_tree(
    tree: JointTree, dependencies: Sequence[tuple[CoordinateIndex, dict[CoordinateIndex, float], float]]
) -> JointTree | ReducedTree:
    """A tree with dependent coordinates: each with the ratios of its leaders, and an offset."""
    if not dependencies:
        return tree
    followers, leader_ratios, offsets = zip(*dependencies, strict=True)
    entries = [(row, place, ratio) for row, ratios in enumerate(leader_ratios) for place, ratio in ratios.items()]
    return ReducedTree(
        tree=tree,
        ratios=jnp.asarray([ratio for _, _, ratio in entries], float),
        offsets=jnp.asarray(offsets, float),
        followers=tuple(followers),
        rows=tuple(row for row, _, _ in entries),
        leaders=tuple(place for _, place, _ in entries),
    )
