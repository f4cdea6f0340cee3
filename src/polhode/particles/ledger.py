"""The ledger of contacts: work of their loads by kind in a step, and what of it is lost."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from polhode.particles.laws.contact_law import MOMENTS, Action
from polhode.spaces.component_arrays import Vectors, add, cross, dot, scale, subtract
from polhode.systems.separable import Loads, Motion

STORES = {"sliding": ("tangential",), "rolling": ("rolling",), "twisting": ("twisting",), "damping": ()}
"""Energies that loads of a kind store; what they do besides is lost."""


class Sums(NamedTuple):
    """Loads of contacts on each particle, by kind, and those of bonds.

    - `loads`: all but `MOMENTS` have forces, all but those along the normal have moments; empty otherwise.
    - `powers`: of walls that move, by kind; none without such walls.
    """

    loads: dict[str, Loads]
    powers: dict[str, Array]

    def add(self, normal: Vectors, action: Action, lever: Any) -> Sums:
        """With another contact, `lever` away from the centres against the normal."""
        loads = dict(self.loads)
        for kind, force in action.forces.items():
            moment = loads[kind].moment
            if moment:
                moment = add(moment, scale(-lever, cross(normal, force)))
            loads[kind] = Loads(add(loads[kind].force, force), moment)
        for kind, moment in action.moments.items():
            loads[kind] = Loads((), add(loads[kind].moment, moment))
        return self._replace(loads=loads)

    def add_power(self, action: Action, surface: Vectors, spin: Vectors) -> Sums:
        """With the power of a wall that moves, of which these are the velocities at a contact."""
        more = {kind: dot(force, surface) for kind, force in action.forces.items()}
        more |= {kind: dot(moment, spin) for kind, moment in action.moments.items()}
        return self._replace(powers={**self.powers, **{k: self.powers[k] + p for k, p in more.items()}})

    def add_to(self, loads: Loads) -> Loads:
        """These loads with those of contacts."""
        force, moment = loads
        for part in self.loads.values():
            force = add(force, part.force) if part.force else force
            moment = add(moment, part.moment) if part.moment else moment
        return Loads(force, moment)


def no_sums(kinds: Sequence[str], moves: bool, n: int, dtype: Any) -> Sums:
    """Without contacts of n particles."""
    zero = (jnp.zeros(n, dtype),) * 3
    loads = {k: Loads(() if k in MOMENTS else zero, () if k in ("elastic", "damping") else zero) for k in kinds}
    return Sums(loads, {kind: zero[0] for kind in kinds} if moves else {})


class Works(NamedTuple):
    """Works in a step by kind: on the particles but for what walls do, and of walls."""

    inner: dict[str, Array]
    walls: dict[str, Array]


def works(motion: Motion, before: Sums, after: Sums) -> Works:
    """Of the mean of the loads at both ends of a step along the free motion in it, which is what kicks do to the
    kinetic energy, to round-off, but for `kick_energy`. Where velocities change in it, of the loads at each end along
    the velocities there."""

    def along(kind: str) -> Array:
        total = jnp.zeros((), motion.h.dtype)
        first, last = before.loads[kind], after.loads[kind]
        if motion.ends is not None:
            for loads, rates in zip((first, last), motion.ends, strict=True):
                for a, rate in zip(loads, rates, strict=True):
                    total = total + jnp.sum(dot(a, rate)) if a else total
            return 0.5 * motion.h * total
        for a, b, rate in zip(first, last, (motion.v, motion.omega), strict=True):
            total = total + jnp.sum(dot(add(a, b), rate)) if a else total
        return 0.5 * motion.h * total

    walls = {kind: 0.5 * motion.h * jnp.sum(p + before.powers[kind]) for kind, p in after.powers.items()}
    return Works({kind: along(kind) - walls.get(kind, 0.0) for kind in after.loads}, walls)


def kick_energy(motion: Motion, loads: Loads, masses: Array, inertias: Array) -> Array:
    """Gain of kinetic energy in a step beyond the work of the mean loads: h²/8 (F₁²/m - F₀²/m), the same of moments."""
    ends = zip(motion.before, loads, (masses, inertias), strict=True)
    gain = sum(jnp.sum(dot(subtract(b, a), add(a, b)) / inertia) for a, b, inertia in ends)
    return 0.125 * motion.h**2 * gain
