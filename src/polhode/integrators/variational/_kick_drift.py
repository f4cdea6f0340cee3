"""Shared parts of methods that let bodies move freely between kicks by the loads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.integrators.base import AbstractSymmetricSecondOrder, Carry
from polhode.spaces import component_arrays
from polhode.spaces.component_arrays import Quaternions, Vectors, add, add_scaled, scale
from polhode.spaces.rotations import S3
from polhode.systems.base import State
from polhode.systems.separable import (
    AbstractSeparable,
    Loads,
    Motion,
    PoseComponents,
    Rates,
    Rest,
    Surroundings,
)

Kick = Callable[[Vectors, Any, Vectors], Vectors]
"""(angular velocities, h/J, moments) → angular velocities."""


class KickDriftMemory(NamedTuple):
    """Memory from step to step besides the state: loads there, and surroundings of the bodies."""

    loads: Loads
    around: Surroundings


class Bodies(NamedTuple):
    """All bodies between the parts of a step, component by component."""

    places: PoseComponents
    v: Vectors
    omega: Vectors
    rest: Rest
    memory: KickDriftMemory

    def at(
        self,
        system: AbstractSeparable,
        places: PoseComponents,
        t: Any,
        h: Any,
        start: Quaternions | None = None,
        ends: tuple[Rates, Rates] | None = None,
    ) -> Bodies:
        """The same bodies after free motion from t for h to other places, with the loads there.

        `start`, `ends`: of a `Motion` with angular velocities that change.
        """
        rest, around = system.after_move(places, self.rest, self.memory.around, t + h)
        motion = Motion(places, self.v, self.omega, h, self.memory.loads, t, start, ends)
        loads, rest, around = system.loads_after(motion, rest, around)
        return self._replace(places=places, rest=rest, memory=KickDriftMemory(loads, around))

    def pack(self, system: AbstractSeparable) -> Carry:
        """The carry at the end of a step."""
        parts = self.places.x, self.places.q, self.v, self.omega
        return Carry(system.states(*map(component_arrays.rows, parts), *self.rest), self.memory)


def unpack(carry: Carry) -> Bodies:
    x, q, v, omega = map(component_arrays.columns, carry.state[:4])
    return Bodies(PoseComponents(x, q), v, omega, tuple(carry.state[4:]), carry.memory)


def apply_kick(system: AbstractSeparable, bodies: Bodies, h: Any, kick: Kick = add_scaled) -> Bodies:
    """Spherical bodies after their loads have acted for h."""
    force, moment = bodies.memory.loads
    v = add_scaled(bodies.v, h / system.masses, force)
    return bodies._replace(v=v, omega=kick(bodies.omega, h / system.inertias, moment))


def apply_drag(system: AbstractSeparable, bodies: Bodies, h: Any) -> Bodies:
    """Spherical bodies after loads that depend on velocities have acted for h at fixed places: Heun's method."""
    if not system.damped:
        return bodies

    def rates(v: Vectors, omega: Vectors) -> tuple[Vectors, Vectors]:
        drag = system.drag(bodies.places, v, omega, bodies.rest, bodies.memory.around)
        return scale(h / system.masses, drag.force), scale(h / system.inertias, drag.moment)

    dv, dw = rates(bodies.v, bodies.omega)
    again = rates(add(bodies.v, dv), add(bodies.omega, dw))
    v, omega = add_scaled(bodies.v, 0.5, add(dv, again[0])), add_scaled(bodies.omega, 0.5, add(dw, again[1]))
    return bodies._replace(v=v, omega=omega)


class AbstractKickDrift(AbstractSymmetricSecondOrder):
    """Kicks by the loads, with free motion in between."""

    kinds: ClassVar = (AbstractSeparable,)
    promises: ClassVar = {"manifold": "round-off", "energy": "bounded"}
    promises_at_steps: ClassVar = True

    def promises_for(self, system: AbstractSeparable, state: State) -> dict[str, str]:
        return {**super().promises_for(system, state), **dict.fromkeys(system.kept_momenta, "round-off")}

    def init(self, system: AbstractSeparable, t: Array, h: Array, state: State) -> Carry:
        state = system.states(*(jnp.asarray(part, system.masses.dtype) for part in state))
        x, q, v, omega = map(component_arrays.columns, tuple(state)[:4])
        places = PoseComponents(x, q)
        zero = (jnp.zeros_like(system.masses),) * 3
        at_rest = Motion(places, v, omega, jnp.zeros((), system.masses.dtype), Loads(zero, zero), t)
        rest = tuple(state)[4:]
        loads, rest, around = system.loads_after(at_rest, rest, system.surroundings(places, rest, t))
        return Carry(system.states(*tuple(state)[:4], *rest), KickDriftMemory(loads, around))

    def interpolate(
        self, system: AbstractSeparable, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> State:
        """Cubic for places; attitudes turn evenly, velocities change linearly."""
        start, end = carry0.state, carry1.state
        h = jnp.asarray(h, start[0].dtype)
        s = jnp.asarray(s, start[0].dtype)
        x = hermite(start[0], h * start[2], end[0], h * end[2], s)
        turn = jax.vmap(lambda a, b: S3().compose(a, S3().exp(s * S3().log(S3().compose(S3().inverse(a), b)))))
        velocities = (a + s * (b - a) for a, b in zip(start[2:4], end[2:4], strict=True))
        return system.states(x, turn(start[1], end[1]), *velocities, *start[4:])


def hermite(x0: Array, d0: Array, x1: Array, d1: Array, s: Array) -> Array:
    """The cubic with these ends and derivatives along s in [0, 1]."""
    rise = x1 - x0
    return x0 + s * (d0 + s * (3 * rise - 2 * d0 - d1 + s * (d0 + d1 - 2 * rise)))
