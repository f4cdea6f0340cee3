"""Contacts of neighbours with history: their loads after a step, and history that follows neighbours."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Int

from polhode.particles.laws.contact_law import Action, ContactLaw, History
from polhode.particles.laws.touch import Ends, Touch, surface_velocity
from polhode.particles.ledger import Sums
from polhode.particles.neighbours import Neighbours
from polhode.spaces.component_arrays import Vectors, add, add_scaled, dot, scale, subtract
from polhode.systems.separable import Motion

if TYPE_CHECKING:
    from polhode.particles.interactions import AbstractSphereInteractions

_COINCIDENT = 1e-200
"""|d|² below which two centres coincide."""

_STRETCHES = 4
"""Number of parts of neighbour lists; empty parts are skipped."""


class ContactMemory(NamedTuple):
    """Neighbours, as in `Neighbours`, and what their contacts and those with walls remember.

    - `pairs`: with arrays of the shape of `members`. - `walls`: for each wall, as its `start` makes it.
    - `sums`: of the loads of contacts after the last step. - `active`: which particles the lists are of; None for all.
    """

    members: Int[Array, "capacity n"]
    at: Vectors
    longest: Array
    pairs: History
    walls: tuple[Any, ...]
    sums: Sums
    active: Array | None


class Total(NamedTuple):
    """Sums over contacts: loads by kind of each particle, and energies by name, of each particle or of all.

    `tensor`: Σ f ⊗ (point of contact - centre), row by row, and the number of contacts; empty if not needed.
    """

    sums: Sums
    stored: dict[str, Array]
    lost: dict[str, Array]
    tensor: tuple[Array, ...] = ()

    def add(self, touch: Touch, action: Action, lever: Any, share: float) -> Total:
        """With another contact, of which the particle has this share of the energies."""
        of = lambda energy, total: share * (energy if total.ndim else jnp.sum(energy))  # noqa: E731
        more = lambda old, new: {**old, **{k: old[k] + of(e, old[k]) for k, e in new.items()}}  # noqa: E731
        tensor, normal = self.tensor, touch.normal
        if tensor:
            holds = (touch.overlap > 0) | (action.history.adheres[0] > 0 if action.history.adheres else False)
            arm = scale(-lever, normal)
            each = (*(f * a for f in action.force for a in arm), holds.astype(arm[0].dtype))
            tensor = tuple(a + b for a, b in zip(tensor, each, strict=True))
        sums = self.sums.add(normal, action, lever)
        return Total(sums, more(self.stored, action.stored), more(self.lost, action.lost), tensor)


def follow(old: ContactMemory, new: Neighbours) -> ContactMemory:
    """The new lists with the history of those neighbours that were in the old ones."""
    zero = jax.tree.map(jnp.zeros_like, old.pairs)

    def one(history: Any, slot: Any) -> tuple[Any, None]:
        member, values = slot
        same = new.members == member
        return jax.tree.map(lambda h, v: jnp.where(same, v, h), history, values), None

    pairs = jax.lax.scan(one, zero, (old.members, old.pairs))[0] if jax.tree.leaves(zero) else zero
    return ContactMemory(new.members, new.at, new.longest, pairs, old.walls, old.sums, old.active)


class Sides(NamedTuple):
    """State of a particle for its contacts, component by component.

    - `x`, `v`, `omega`: place, velocity and angular velocity in the step. - `dv`, `domega`: what they gain until its
      end, empty without dampers. - `mass`: empty if all are alike.
    """

    x: Vectors
    v: Vectors
    omega: Vectors
    dv: Vectors
    domega: Vectors
    mass: tuple[Array, ...]


def sides(system: AbstractSphereInteractions, motion: Motion, predicts: bool) -> Sides:
    """Of all particles."""
    dv = domega = ()
    if predicts and motion.gains is not None:
        dv, domega = motion.gains
    elif predicts:
        dv = scale(0.5 * motion.h / system.masses, motion.before.force)
        domega = scale(0.5 * motion.h / system.inertias, motion.before.moment)
    mass = () if system.alike else (system.masses,)
    return Sides(motion.places.x, motion.v, motion.omega, dv, domega, mass)


def add_pairs(
    system: AbstractSphereInteractions, law: ContactLaw, motion: Motion, memory: ContactMemory, total: Total
) -> tuple[Total, History]:
    """`total` with the contacts of all neighbours, and their history."""
    here = sides(system, motion, law.is_damped)
    leaves, structure = jax.tree.flatten(here)
    size = -(-system.capacity // _STRETCHES)
    pieces = []
    for first in range(0, system.capacity, size):
        part = lambda a, first=first: a[first : first + size]  # noqa: E731
        slots = part(memory.members), jax.tree.map(part, memory.pairs)

        def loop(total: Total, slots: Any) -> tuple[Total, History]:
            reader = system.neighbour_reader(tuple(leaves))

            def one(total: Total, slot: Any) -> tuple[Total, History]:
                member, history = slot
                there = jax.tree.unflatten(structure, reader(member))
                touch, lever = pair_touch(system, here, there, member, motion.h)
                action = law.act(touch, history)
                return total.add(touch, action, lever, 0.5), action.history

            return jax.lax.scan(one, total, slots)

        skip = lambda total, slots: (total, slots[1])  # noqa: E731
        total, history = jax.lax.cond(memory.longest > first, loop, skip, total, slots)
        pieces.append(history)
    return total, jax.tree.map(lambda *a: jnp.concatenate(a), *pieces)


def pair_touch(
    system: AbstractSphereInteractions, here: Sides, there: Sides, member: Array, h: Array
) -> tuple[Touch, Array]:
    """The contact of every particle with the one in its slot, and its lever."""
    d, v = system.apart(here.x, there.x), subtract(here.v, there.v)
    square = dot(d, d)
    real = square > _COINCIDENT
    length = jnp.sqrt(jnp.where(real, square, 1.0))
    n = scale(jnp.where(real, 1 / length, 0.0), d)
    reach, radius, mass, levers = _sizes(system, here, there, member, length)
    overlap = jnp.where(real, reach - length, -reach)
    start = jnp.where(real, square - h * (2 * dot(d, v) - h * dot(v, v)), 1.0)
    before = jnp.where(real, reach - jnp.sqrt(jnp.maximum(start, 0.0)), -reach)
    tilt = scale(h * jnp.where(real, 1 / length, 0.0), add_scaled(v, -dot(v, n), n))
    ends = Ends(v, here.omega, there.omega)
    gains = Ends(subtract(here.dv, there.dv), here.domega, there.domega)
    overlaps, shift = (overlap, before), 0.25 * (overlap - before)
    levers = levers, (levers[0] + shift, levers[1] + shift)
    return make_touch(n, overlaps, (radius, mass), tilt, levers, ends, gains, h), levers[0][0]


def _sizes(
    system: AbstractSphereInteractions, here: Sides, there: Sides, member: Array, length: Array
) -> tuple[Any, Any, Any, tuple[Any, Any]]:
    """Reach, effective radius and mass, and both levers: the point of contact is in the middle of the overlap."""
    if system.alike:
        diameter, mass = system.diameters[:1], system.masses[:1]
        return diameter, 0.25 * diameter, 0.5 * mass, (0.5 * length, 0.5 * length)
    reach = system.reach(member)
    r = 0.5 * system.diameters
    other, half = reach - r, 0.5 * (reach - length)
    m, of_other = here.mass[0], there.mass[0]
    return reach, r * other / reach, m * of_other / (m + of_other), (r - half, other - half)


def make_touch(
    n: Vectors,
    overlaps: tuple[Array, Array],
    sizes: tuple[Any, Any],
    tilt: Vectors,
    levers: tuple[tuple[Any, Any], tuple[Any, Any]],
    ends: Ends,
    gains: Ends,
    h: Array,
) -> Touch:
    """`levers` at the end and in the middle of the step; `ends` in the step, and `gains` from there to its end: none,
    if there are no dampers."""
    middle = add_scaled(n, -0.5, tilt)
    slide = surface_velocity(middle, levers[1], ends)
    slide = add_scaled(slide, -dot(slide, n), n)
    turn = subtract(ends.here, ends.there)
    slip, spin, parting = slide, turn, dot(ends.apart, n)
    if gains.apart:
        slip = surface_velocity(n, levers[0], Ends(*map(add, ends, gains)))
        spin = add(spin, subtract(gains.here, gains.there))
        parting = parting + dot(gains.apart, n)
    twist = 0.5 * h * dot(add(ends.here, ends.there), middle)
    return Touch(n, *overlaps, *sizes, tilt, middle, twist, scale(h, slide), scale(h, turn), parting, slip, spin, h)
