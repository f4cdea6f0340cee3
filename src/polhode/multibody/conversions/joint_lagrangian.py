"""Multibody systems in flat coordinates, such as angles of joints, as Lagrangian systems."""

from __future__ import annotations

from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.blocks import apply
from polhode.multibody.conversions.livens_angles import AbstractLivensModel
from polhode.multibody.system import MultibodySystem
from polhode.spaces.base import AbstractSpace, Point
from polhode.spaces.constants import Constants
from polhode.spaces.linear import Rn
from polhode.spaces.powers import AbstractPower
from polhode.spaces.products import AbstractProduct
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


class ToJointLagrangian(AbstractConversion):
    r"""$L = \tfrac12 v^TM(q)v - V(q)$ with v = q̇ in coordinates of linear spaces."""

    source: MultibodySystem

    @property
    def kind(self) -> type[AbstractLagrangian]:
        return AbstractLagrangian

    @property
    def note(self) -> str:
        return "states are (q, v, p) with the coordinates q in one array"

    @property
    def obstacle(self) -> str:
        system = self.source
        if not (system.identity_kinematics and is_flat(system.configuration)):
            return (
                "some of its coordinates are rotations, which Lagrangian coordinates q with v = q̇ don't describe; in "
                "absolute coordinates, formulation 'SO3xR3', rigid bodies have some that do"
            )
        if system.mechanism.driven:
            return "some constraints depend on time"
        if len(system.nonholonomic):
            return NONHOLONOMIC
        if not system.inert:
            return "some of its coordinates have no kinetic energy"
        return ""

    def at(self, state: State) -> Converted:
        del state
        system = JointLagrangian(self.source)
        return Converted(system, system.from_base, system.to_base)


class JointLagrangian(AbstractLivensModel, AbstractLagrangian):
    """A multibody system in flat coordinates on Livens' principle.

    - `base`: the system.
    """

    kind_name: ClassVar = "model in coordinates and their rates"

    base: MultibodySystem

    @property
    def n(self) -> int:
        return self.base.n

    @property
    def m(self) -> int:
        return self.base.m

    @property
    def conservative(self) -> bool:
        return self.base.conservative

    def kinetic_energy(self, q: Coordinates, v: Coordinates) -> Float[Array, ""]:
        return self.base.kinetic_energy(_NOW, self._point(q), v)

    def potential_energy(self, q: Coordinates) -> Float[Array, ""]:
        return self.base.potential_energy(_NOW, self._point(q))

    def constraint(self, q: Coordinates) -> Multipliers:
        return self.base.constraint(_NOW, self._point(q))

    def load(self, t: Array, q: Coordinates, v: Coordinates) -> Coordinates:
        """f + Ṁv - ∂L/∂q, with f of M v̇ = f."""
        if self.conservative:
            return super().load(t, q, v)
        mass_rate = jax.jvp(lambda q: apply(self.base.mass(t, self._point(q)), v, self.n), (q,), (v,))[1]
        slope = jax.grad(lambda q: self.kinetic_energy(q, v) - self.potential_energy(q))(q)
        return self.base.force(t, self._point(q), v) + mass_rate - slope

    def discrete_derivatives(self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates) -> Derivatives:
        return self._functions.discrete_derivatives(q0, v0, q1, v1)

    def roundoff_gain(self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates) -> tuple[Any, Any]:
        return self._functions.roundoff_gain(q0, v0, q1, v1)

    @property
    def _functions(self) -> Lagrangian:
        g = self.constraint if self.m else None
        return Lagrangian(self.n, self.kinetic_energy, self.potential_energy, g, self.m)

    # --- states -----------------------------------------------------------------------------------------------------

    def from_base(self, state: State) -> State:
        """The state that corresponds to (q, v) of the base."""
        q, v = state
        flat = jnp.concatenate([part.reshape(-1) for part in jax.tree.leaves(self._bare(q))])
        return self.with_turns(LivensState(flat, v, self.base.momentum(_NOW, q, v)), self.base.turns(q))

    def outputs(self) -> dict[str, Observable]:
        return self.convert_observables(self.base.outputs())

    def to_base(self, state: State) -> State:
        """(q, v) of the base."""
        q, v = state[:2]
        return self.position(self._place(q), state), v

    def _point(self, q: Coordinates) -> Point:
        """The position of the base within a step."""
        return self.position(self._place(q), None)

    def _place(self, q: Coordinates) -> Point:
        parts, structure = jax.tree.flatten(self._bare(self.base.configuration.origin()))
        ends = [0]
        for part in parts:
            ends.append(ends[-1] + part.size)
        pieces = [q[a:b].reshape(p.shape) for a, b, p in zip(ends[:-1], ends[1:], parts, strict=True)]
        return jax.tree.unflatten(structure, pieces)

    def _bare(self, q: Point) -> Point:
        """A position of the base without counted angles."""
        return q if self.base.counter is None else q[:-1]


_NOW: Any = np.zeros(())
"""For energies, which don't depend on time."""


def is_flat(space: AbstractSpace) -> bool:
    """Whether a space is linear, so that `move` is addition."""
    if isinstance(space, AbstractProduct):
        return all(map(is_flat, space.spaces))
    return is_flat(space.space) if isinstance(space, AbstractPower) else type(space) in (Rn, Constants)
