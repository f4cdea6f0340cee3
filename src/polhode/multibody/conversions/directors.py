"""Bodies with joints as Lagrangian systems with a constant mass matrix: positions and directors."""

from __future__ import annotations

import itertools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.conversions.livens_angles import AbstractLivensModel
from polhode.multibody.coordinates.absolute import AbsoluteCoordinates
from polhode.multibody.mechanism.groups import BodyGroup, Motion
from polhode.multibody.mechanism.poses import Pose, Twist, axial
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import hat
from polhode.systems.base import AbstractConversion, Converted, Observable, State
from polhode.systems.conversion import NONHOLONOMIC
from polhode.systems.lagrangian import (
    AbstractLagrangian,
    Coordinates,
    Derivatives,
    Lagrangian,
    LivensState,
    Multipliers,
)

_NOW: Any = np.zeros(())
"""For energies and constraints, which don't depend on time."""

_UPPER = np.triu_indices(3)
"""Indices of the products of two directors in their Gram matrix."""


class ToDirectors(AbstractConversion):
    r"""Rotation matrices by their entries: $T = \tfrac12 m|\dot x|^2 + \tfrac12\operatorname{tr}\dot RE\dot R^T$ with
    $E = \tfrac12\operatorname{tr}(J)1 - J$, and $R^TR = 1$ among the constraints.

    ??? cite "Reference"
        P. Betsch, P. Steinmann, Constrained integration of rigid body dynamics, Comput. Methods Appl. Mech. Engrg. 191
        (2001), section 3.
    """

    source: MultibodySystem[AbsoluteCoordinates]

    @property
    def kind(self) -> type[AbstractLagrangian]:
        return AbstractLagrangian

    @property
    def note(self) -> str:
        return "states are (q, v, p) with position and rotation matrix of every body, row by row, in q"

    @property
    def obstacle(self) -> str:
        if self.source.mechanism.driven:
            return "some joints depend on time"
        if len(self.source.nonholonomic):
            return NONHOLONOMIC
        if any(group.formulation.deforms for group in self.source.coordinates.bodies):
            return "some bodies deform"
        return "" if self.source.inert else "some of its coordinates have no kinetic energy"

    def at(self, state: State) -> Converted:
        del state
        system = DirectorLagrangian(self.source)
        return Converted(system, system.from_base, system.to_base)


class DirectorLagrangian(AbstractLivensModel, AbstractLagrangian):
    """Bodies, joints and forces on Livens' principle in positions and rotation matrices.

    q has 12 coordinates for every rigid body, (x, R row by row), and those of mass points unchanged. Constraints are
    those of the joints in their order, then six for each rigid body.

    - `base`: the system in its own coordinates.
    """

    kind_name: ClassVar = "model in positions and rotation matrices"

    base: MultibodySystem[AbsoluteCoordinates]

    @property
    def bodies(self) -> tuple[BodyGroup, ...]:
        """Groups of bodies with the same coordinates in the base."""
        return self.base.coordinates.bodies

    @property
    def n(self) -> int:
        return sum(group.count * _width(group) for group in self.bodies)

    @property
    def m(self) -> int:
        joints = sum(group.rows.numbers.size for group in self.base.mechanism.joints)
        return joints + sum(6 * group.count for group in self.bodies if _rigid(group))

    @property
    def conservative(self) -> bool:
        return self.base.conservative

    def kinetic_energy(self, q: Coordinates, v: Coordinates) -> Float[Array, ""]:
        return 0.5 * v @ self.momenta(q, v)

    def momenta(self, q: Coordinates, v: Coordinates) -> Coordinates:
        del q
        parts = []
        for group, rows in zip(self.bodies, self._rows(v), strict=True):
            p = group.mass[:, None] * rows[:, :3]
            if _rigid(group):
                J = group.inertia
                euler = 0.5 * jnp.trace(J, axis1=1, axis2=2)[:, None, None] * jnp.eye(3) - J
                p = jnp.concatenate((p, (_matrices(rows) @ euler).reshape(-1, 9)), axis=1)
            parts.append(p.reshape(-1))
        return jnp.concatenate(parts)

    def potential_energy(self, q: Coordinates) -> Float[Array, ""]:
        return self.base.potential(_NOW, self.motion(q))

    def constraint(self, q: Coordinates) -> Multipliers:
        motion, joints = self.motion(q), self.base.mechanism.joints
        parts = [group.residuals(_NOW, motion).reshape(-1) for group in joints]
        # In the order of the base, whose numbers have gaps where its coordinates have constraints of their own.
        numbers = [group.rows.numbers.reshape(-1) for group in joints]
        values = [jnp.concatenate(parts)[np.argsort(np.concatenate(numbers))]] if parts else [jnp.zeros(0)]
        for group, rows in zip(self.bodies, self._rows(q), strict=True):
            if _rigid(group):
                R = _matrices(rows)
                gram = 0.5 * (jnp.einsum("nki,nkj->nij", R, R) - jnp.eye(3))
                values.append(gram[:, _UPPER[0], _UPPER[1]].reshape(-1))
        return jnp.concatenate(values)

    def load(self, t: Array, q: Coordinates, v: Coordinates) -> Coordinates:
        """All loads except those of the potential; a body-fixed moment τ acts on R as ½ R hat(τ)."""
        if self.conservative:
            return super().load(t, q, v)
        loads, wrenches = [], self.base.coordinates.wrenches(self.base.mechanism, t, self.motion(q, v))
        for group, rows, wrench in zip(self.bodies, self._rows(q), wrenches, strict=True):
            load = wrench.force
            if _rigid(group):
                on_directors = 0.5 * _matrices(rows) @ jax.vmap(hat)(wrench.torque)
                load = jnp.concatenate((load, on_directors.reshape(-1, 9)), axis=1)
            loads.append(load[:, : _width(group)].reshape(-1))
        return jnp.concatenate(loads) + jax.grad(self.potential_energy)(q)

    def discrete_derivatives(self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates) -> Derivatives:
        return self._functions.discrete_derivatives(q0, v0, q1, v1)

    def roundoff_gain(self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates) -> tuple[Any, Any]:
        return self._functions.roundoff_gain(q0, v0, q1, v1)

    @property
    def _functions(self) -> Lagrangian:
        zero = jnp.zeros(self.n)
        mass = jax.vmap(lambda e: self.momenta(zero, e))(jnp.eye(self.n))
        return Lagrangian(self.n, mass, self.potential_energy, self.constraint if self.m else None, self.m)

    # --- states -----------------------------------------------------------------------------------------------------

    def from_base(self, state: State) -> State:
        """The state that corresponds to (q, v) of the base."""
        motion = self.base.motion(*state)
        assert motion.twists is not None
        places, speeds, at = [], [], 0
        for group in self.bodies:
            x, R, omega, u = (part[at : at + group.count] for part in (*motion.poses, *motion.twists))
            at += group.count
            if _rigid(group):
                R_rate = R @ jax.vmap(hat)(omega)
                x = jnp.concatenate((x, R.reshape(-1, 9)), axis=1)
                u = jnp.concatenate((u, R_rate.reshape(-1, 9)), axis=1)
            places.append(x[:, : _width(group)].reshape(-1))
            speeds.append(u[:, : _width(group)].reshape(-1))
        q, v = jnp.concatenate(places), jnp.concatenate(speeds)
        return self.with_turns(LivensState(q, v, self.momenta(q, v)), self.base.turns(state[0]))

    def outputs(self) -> dict[str, Observable]:
        return self.convert_observables(self.base.outputs())

    def to_base(self, state: State) -> State:
        """(q, v) of the base."""
        q, v = self.base.coordinates.state_of(self.motion(*state[:2]))
        return self.position(q, state), v

    def motion(self, q: Coordinates, v: Coordinates | None = None) -> Motion:
        """Poses and, with v, twists of all bodies and of the ground."""
        places = [_place(group, rows) for group, rows in zip(self.bodies, self._rows(q), strict=True)]
        x, R = (jnp.concatenate(parts) for parts in zip(*places, strict=True))
        poses = Pose(jnp.concatenate((x, jnp.zeros((1, 3)))), jnp.concatenate((R, jnp.eye(3)[None])))
        if v is None:
            return Motion(poses)
        rates = [_place(group, rows, still=True) for group, rows in zip(self.bodies, self._rows(v), strict=True)]
        u, R_rate = (jnp.concatenate(parts) for parts in zip(*rates, strict=True))
        omega = 0.5 * jax.vmap(axial)(jnp.einsum("nki,nkj->nij", R, R_rate))
        zero = jnp.zeros((1, 3))
        return Motion(poses, Twist(jnp.concatenate((omega, zero)), jnp.concatenate((u, zero))))

    def _rows(self, flat: Coordinates) -> list[Float[Array, "count width"]]:
        """The coordinates of each group of bodies, a row for each body."""
        ends = np.cumsum([0] + [group.count * _width(group) for group in self.bodies])
        parts = [flat[a:b] for a, b in itertools.pairwise(ends)]
        return [part.reshape(group.count, -1) for part, group in zip(parts, self.bodies, strict=True)]


def _rigid(group: BodyGroup) -> bool:
    return group.formulation.rotates


def _width(group: BodyGroup) -> int:
    return 12 if _rigid(group) else group.formulation.n


def _matrices(rows: Float[Array, "count 12"]) -> Float[Array, "count 3 3"]:
    return rows[:, 3:].reshape(-1, 3, 3)


def _place(group: BodyGroup, rows: Array, still: bool = False) -> tuple[Array, Array]:
    """Positions and matrices, or their rates; mass points have none of their own."""
    if _rigid(group):
        return rows[:, :3], _matrices(rows)
    matrix = jnp.zeros((3, 3)) if still else jnp.eye(3)
    empty = jnp.zeros((group.count, 3 - rows.shape[1]))
    return jnp.concatenate((rows, empty), axis=1), jnp.broadcast_to(matrix, (group.count, 3, 3))
