"""Spheres with bonds, contacts and walls as a system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array, Float, Int

from polhode import checks
from polhode.captured.programs import compiled
from polhode.particles import bonds, contacts
from polhode.particles.bonds import BondMaterial, Constants, Pair, Shear, Slots
from polhode.particles.input import bond_kinds, bond_pairs, materials, not_negative, per_particle, walls_of
from polhode.particles.neighbours import search, stale
from polhode.particles.walls import AbstractWall
from polhode.results import Result
from polhode.spaces.components import Vectors, added, columns, less, moved, picked, scaled
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.systems.base import Observable, State
from polhode.systems.separable import AbstractSeparable, BodyStates, Loads, Places, Rest, Surroundings

_ROOM = 12
"""Neighbours for which there is room at least: as many equal spheres touch one."""

_UNROLLED, _MANY = 4, 30_000
"""Bonds or neighbours in one pass over the particles; one by one where particles are many, as then what one pass reads
no longer fits into the caches."""

_STRETCHES = 4
"""Into how many parts lists are cut, of which only those are read that hold something."""

OVERLAP = 0.3
"""Share of the reach by which particles may overlap at the start."""


class ParticleStates(NamedTuple):
    """`BodyStates` of particles whose bonds can break. `whole`: 1 for each bond that holds and 0 for a broken one."""

    x: Float[Array, "n 3"]
    q: Float[Array, "n 4"]
    v: Float[Array, "n 3"]
    omega: Float[Array, "n 3"]
    whole: Float[Array, " m"]


class Particles(AbstractSeparable):
    r"""n spheres with bonds, Hertzian contacts, walls and gravity.

    Energies and forces of bonds: `BondMaterial`. Contacts: $\tfrac25K\delta^{5/2}$ with $\delta = [1-l/D]_+$ and D the
    mean of both diameters; of walls the same with D half a diameter and l the distance. Particles that are bonded
    are in contact only where `bonded_contacts` says so, or once their bond is broken.

    Every particle sums what its own bonds and neighbours do to it, so nothing is scattered; pairs are computed twice.

    **Arguments:**

    - `masses`, `inertias`, `diameters`: shape (n,), or one number for all.
    - `positions`: shape (n, 3), from which bonds take their lengths at rest; attitudes are the identity there.
    - `pairs`: numbers of the particles of each bond, shape (m, 2).
    - `material`: one `BondMaterial` for all bonds, or a sequence of them with `kinds`, shape (m,), that says which.
    - `shear`: "objective", or "literal" for the law as printed, under which a rigid rotation costs energy: it keeps
      ΣJΩ instead of Σ(x × mv + JΩ).
    - `contact`: K of contacts between particles, an energy; 0 for none. - `wall_contact`: the same of walls.
    - `contact_damping`: force along the line of centres per speed of approach, while particles or walls touch.
    - `bonded_contacts`: whether particles with a bond are in contact as well.
    - `walls`: of `polhode.particles`. - `gravity`: acceleration, shape (3,).
    - `skin`: by how much farther neighbours are looked for than contacts reach, as a share of the largest diameter;
      lists are made anew when a particle has moved by half of it against the mean.
    - `capacity`: neighbours for which there is room; None for 12, or half as many again as there are at the start.
    - `dtype`: "float64", or "float32": a ring of 12 then keeps its energy to 1e-5 over 1,000 steps.

    - Momenta kept to round-off: Σmv without walls and gravity; then also ΣJΩ with the literal law, and
      Σ(x × mv + JΩ) with the objective one.

    Raises ValueError for shapes that don't fit, pairs that don't exist or occur twice, and particles at one place.
    """

    called: ClassVar = "system of particles"

    masses: Float[Array, " n"]
    inertias: Float[Array, " n"]
    diameters: Float[Array, " n"]
    gravity: Float[Array, "3"]
    pairs: Int[Array, "m 2"]
    slots: Slots
    constants: Constants
    per_bond: Constants
    dampers: tuple[Array, Array] | None
    limits: Vectors | None
    contact: Float[Array, ""]
    wall_contact: Float[Array, ""]
    contact_damping: Float[Array, ""] | None
    walls: tuple[AbstractWall, ...]
    skin: Float[Array, ""]
    shear: Shear = eqx.field(static=True)
    bonded_contacts: bool = eqx.field(static=True)
    touching: bool = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    free: bool = eqx.field(static=True)

    def __init__(
        self,
        masses: Any,
        inertias: Any,
        diameters: Any,
        positions: Any,
        pairs: Any = (),
        material: BondMaterial | Sequence[BondMaterial] | None = None,
        kinds: Any = None,
        shear: Shear = "objective",
        contact: Any = 0.0,
        wall_contact: Any = None,
        contact_damping: Any = 0.0,
        bonded_contacts: bool = False,
        walls: Sequence[AbstractWall] = (),
        gravity: Any = (0.0, 0.0, 0.0),
        skin: float = 0.2,
        capacity: int | None = None,
        dtype: str = "float64",
    ) -> None:
        checks.choice("dtype", dtype, ("float64", "float32"))
        checks.choice("shear", shear, ("objective", "literal"))
        kind = jnp.dtype(dtype)
        x = checks.numbers("positions", positions, "centres of the particles")
        if x.ndim != 2 or x.shape[1] != 3 or not len(x):
            raise ValueError(f"`positions` must have shape (n, 3), one row for each particle, got {x.shape}.")
        n = len(x)
        checks.array("positions", x, (n, 3), "centres of the particles")

        self.masses = per_particle("masses", masses, n, "mass of each particle").astype(kind)
        self.inertias = per_particle("inertias", inertias, n, "moment of inertia of each particle").astype(kind)
        self.diameters = per_particle("diameters", diameters, n, "diameter of each particle").astype(kind)
        self.gravity = checks.array("gravity", gravity, (3,), "acceleration by gravity").astype(kind)
        number = lambda name, value: not_negative(name, value).astype(kind)  # noqa: E731
        self.contact = number("contact", contact)
        self.wall_contact = self.contact if wall_contact is None else number("wall_contact", wall_contact)
        damped = not (checks.is_concrete(contact_damping) and np.asarray(contact_damping) == 0)
        self.contact_damping = number("contact_damping", contact_damping) if damped else None
        self.walls = walls_of(walls, self.wall_contact)
        self.shear, self.bonded_contacts = shear, bool(bonded_contacts)
        links = bond_pairs(pairs, n)
        self._bond(x, links, material, kinds, kind)
        self.touching = not (checks.is_concrete(contact) and float(contact) == 0)
        checks.positive("skin", skin, (), "share of the largest diameter")
        self.skin = (skin * jnp.max(self.diameters)).astype(kind)
        self.free = not self.walls and checks.is_concrete(gravity) and not np.any(np.asarray(gravity))
        self.capacity = 0
        if self.touching:
            room = _room(x, diameters, skin, links) if capacity is None else capacity
            self.capacity = min(checks.count("capacity", room, "neighbours for which there is room"), max(n - 1, 1))

    def _bond(self, x: np.ndarray, links: np.ndarray, material: Any, kinds: Any, kind: Any) -> None:
        n, m = len(x), len(links)
        d0 = x[links[:, 0]] - x[links[:, 1]]
        length = np.linalg.norm(d0, axis=1)
        if m and not np.all(length > 0):
            first = links[int(np.argmin(length))]
            raise ValueError(f"Particles {first[0]} and {first[1]} are bonded and at the same place.")
        found = materials(material, m)
        which = bond_kinds(kinds, m, len(found))
        of = lambda read: jnp.stack([jnp.asarray(read(k), float) for k in found])[which].astype(kind)  # noqa: E731
        arm = columns(jnp.asarray(d0, kind))
        per = Constants(
            of(lambda k: k.bending), of(lambda k: k.axial), of(lambda k: k.shear), jnp.asarray(length, kind), arm
        )
        self.pairs, self.slots = jnp.asarray(links, jnp.int32), bonds.slots(n, links)
        self.slots = self.slots._replace(sign=self.slots.sign.astype(kind))

        def at_slots(a: Array, one: bool = False, filling: float = 0.0) -> Array:
            # Of one material each slot holds the same: reading that once is a fifth of the time of large systems.
            if one and m:
                return jnp.broadcast_to(a[:1], (self.slots.bond.shape[0], 1))
            return jnp.append(a, jnp.asarray(filling, kind))[self.slots.bond]

        alike = len(found) == 1
        self.per_bond = per
        self.constants = Constants(
            bending=at_slots(per.bending, alike),
            axial=at_slots(per.axial, alike),
            shear=at_slots(per.shear, alike),
            length=at_slots(per.length, filling=1.0),
            arm=tuple(map(at_slots, arm)),
        )
        dampers = of(lambda k: k.axial_damping), of(lambda k: k.bending_damping)
        some = not (checks.is_concrete(dampers) and not any(np.any(np.asarray(a)) for a in dampers))
        self.dampers = (at_slots(dampers[0], alike), at_slots(dampers[1], alike)) if some else None
        self.limits = None
        if any(k.strength is not None and k.strength.is_finite for k in found):
            bears = lambda name: of(lambda k: np.inf if k.strength is None else getattr(k.strength, name))  # noqa: E731
            self.limits = bears("tension"), bears("moment"), bears("shear")

    # --- states -----------------------------------------------------------------------------------------------------

    @property
    def states(self) -> Any:  # pyright: ignore[reportIncompatibleVariableOverride]
        return BodyStates if self.limits is None else ParticleStates

    @property
    def bonds(self) -> int:
        """Number of bonds."""
        return self.pairs.shape[0]

    @property
    def state_space(self) -> Any:
        space = super().state_space
        return space if self.limits is None else product(*space.spaces, Rn(self.bonds))

    @property
    def state_hint(self) -> str:
        return "`system.start(positions, velocities, angular_velocities)` makes one."

    def start(self, positions: Any, velocities: Any = 0.0, angular_velocities: Any = 0.0, rotations: Any = None) -> Any:
        """A state; velocities have shape (n, 3), or (3,) for all, `rotations` are quaternions (n, 4)."""
        kind, n = self.masses.dtype, self.n
        given = (
            ("positions", positions, 3),
            ("velocities", velocities, 3),
            ("angular_velocities", angular_velocities, 3),
        )
        for name, value, width in (*given, ("rotations", rotations, 4)):
            known = ((n, width),) if name in ("positions", "rotations") else ((n, 3), (3,), ())
            shape = () if value is None else checks.shape(name, value, "a row for each particle")
            if value is not None and shape not in known:
                raise ValueError(f"`{name}` must have shape {known[0]}, a row for each particle, got {shape}.")
        parts = [jnp.broadcast_to(jnp.asarray(a, kind), (n, 3)) for a in (velocities, angular_velocities)]
        q = jnp.zeros((n, 4), kind).at[:, 0].set(1) if rotations is None else jnp.asarray(rotations, kind)
        whole = () if self.limits is None else (jnp.ones(self.bonds, kind),)
        return self.states(jnp.asarray(positions, kind), q, *parts, *whole)

    def check(self, t: float, state: State) -> None:
        """Refuses particles that overlap by more than 0.3 of their reach with others or walls: they would burst apart.

        Bonds without length, which have no direction, as well.
        """
        if not checks.is_concrete(self, state):
            return
        x = jnp.asarray(state[0])
        i, j = np.asarray(self.pairs).T
        # Bonds that fill up the blocks of devices have the same particle at both ends.
        length = np.where(i == j, np.inf, np.linalg.norm(np.asarray(x)[i] - np.asarray(x)[j], axis=1))
        if np.any(length == 0):
            raise ValueError(f"{self._both(*self.pairs[int(np.argmin(length))])} are bonded and at the same place.")
        if self._touching_bonded and self.bonds:
            depth = 1 - length / np.asarray(0.5 * jnp.sum(self.diameters[self.pairs], axis=1))
            self._refuse_overlap(depth, lambda k: f"{self._both(*self.pairs[k])}, whose bond doesn't keep them apart,")
        if self.touching:
            room = self.n if self.n < 64 else 4 * self.capacity
            depth, members = map(np.asarray, _overlaps(self, x, room))
            self._refuse_overlap(depth, lambda k: self._both(k % self.n, members.reshape(-1)[k]))
        for wall in self.walls:
            depth = np.stack([np.asarray(1 - 2 * d / self.diameters) for d, _ in wall.faces(columns(x))])
            name = type(wall).__name__
            self._refuse_overlap(depth, lambda k, name=name: f"Particle {self._known_as(k % self.n)} and a {name}")

    def _both(self, i: Any, j: Any) -> str:
        return "Particles {} and {}".format(*sorted(self._known_as(int(k)) for k in (i, j)))

    def _refuse_overlap(self, depth: np.ndarray, who: Callable[[int], str]) -> None:
        if not depth.size or not np.max(depth) > OVERLAP:
            return
        raise ValueError(
            f"{who(int(np.argmax(depth)))} overlap by {np.max(depth):.0%} of their reach at the start; there are "
            f"{np.count_nonzero(np.any(np.atleast_2d(depth) > OVERLAP, axis=0))} overlaps of more than 30 %, which "
            "would burst apart. Move particles, or make them smaller."
        )

    def _known_as(self, which: int) -> int:
        """The user's number of a particle."""
        return which

    # --- what acts --------------------------------------------------------------------------------------------------

    def surroundings(self, places: Places) -> Surroundings:
        if not self.touching:
            return super().surroundings(places)
        return Surroundings(*self._search(places.x, self.capacity, self.skin))

    def _search(self, x: Vectors, capacity: int, skin: Any = 0.0) -> tuple[Any, Array]:
        reach = 0.5 * (self.diameters + skin)
        partners = self.slots.partner if self.slots.partner.shape[0] else None
        return search(x, reach, 2 * jnp.max(reach), partners, capacity)

    def moved(self, places: Places, rest: Rest, around: Surroundings) -> tuple[Rest, Surroundings]:
        if self.limits is not None:
            rest = (rest[0] * self._holding(places),)
        if self.walls:
            through = [jnp.any(distance < -self.diameters) for distance, _ in self._faces(places.x)]
            lost = jnp.where(jnp.any(jnp.stack(through)), int(Result.lost_particles), 0).astype(jnp.int32)
            around = around._replace(result=jnp.maximum(around.result, lost))
        if not self.touching:
            return rest, around
        anew = stale(around.lists, places.x, self.skin)
        search = lambda around, x: Surroundings(*self._search(x, self.capacity, self.skin))  # noqa: E731
        return rest, jax.lax.cond(anew, search, lambda around, x: around, around, places.x)

    def _holding(self, places: Places) -> Array:
        """1 where a bond bears its load, by its own ends alone, so that the order of bonds doesn't matter."""
        read = self._linked((*places.x, *places.q))
        a, b = map(read, self._bond_ends)
        pair = Pair(less(a[:3], b[:3]), a[3:], b[3:], 1.0)
        assert self.limits is not None
        share = bonds.stress(self.shear, self.per_bond, pair, self.limits)
        return jnp.where(share > 1, 0.0, 1.0).astype(self.masses.dtype)

    # How particles read each other; over several devices these are all that differs.

    def _linked(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        """Reads `a` at ends of bonds, by the numbers in `_slot_ends` and `_bond_ends`."""
        return lambda which: picked(a, which)

    def _near(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        """Reads `a` of any particles, by their numbers."""
        return lambda which: picked(a, which)

    @property
    def _slot_ends(self) -> Array:
        return self.slots.partner

    @property
    def _bond_ends(self) -> tuple[Array, Array]:
        return self.pairs[:, 0], self.pairs[:, 1]

    def _whole(self, rest: Rest) -> Array | None:
        """`whole` of the bonds at the slots."""
        if not rest:
            return None
        return jnp.concatenate((rest[0], jnp.zeros(1, rest[0].dtype)))[self.slots.bond]

    def loads(self, places: Places, rest: Rest, around: Surroundings) -> Loads:
        kind = self.masses.dtype
        force = tuple(self.masses * g for g in self.gravity)
        moment = (jnp.zeros(self.n, kind),) * 3
        if self.bonds:
            f, torque = self._bonded(places, rest)
            force, moment = added(force, f), torque
        if self.touching:
            force = self._contacts(places.x, around, force)
        for distance, normal in self._faces(places.x):
            radius = 0.5 * self.diameters
            delta = jnp.maximum(1 - distance / radius, 0.0)
            force = moved(force, contacts.hertz(self.wall_contact, delta) / radius, normal)
        return Loads(force, moment)

    def _faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        return [face for wall in self.walls for face in wall.faces(x)]

    def _bonded(self, places: Places, rest: Rest) -> tuple[Vectors, Vectors]:
        whole = self._whole(rest)
        x, q = places
        read = self._linked((*x, *q))

        def one(slot: Any) -> tuple[Vectors, Vectors]:
            k, sign, end, partner, whole = slot
            there = read(end)
            pair = Pair(less(x, there[:3]), q, there[3:], sign)
            k = k if whole is None else k.weakened(whole)
            if not self._touching_bonded:
                return bonds.loads(self.shear, k, pair)
            stiffness = self.contact if self.bonded_contacts or whole is None else (1 - whole) * self.contact
            return bonds.loads(self.shear, k, pair, partial(contacts.push, stiffness, self._reach(partner)))

        zero = (jnp.zeros(self.n, self.masses.dtype),) * 3
        partner = self.slots.partner if self._touching_bonded else None
        return _summed(one, (self.constants, self.slots.sign, self._slot_ends, partner, whole), (zero, zero))

    @property
    def _touching_bonded(self) -> bool:
        """Whether ends of bonds may be in contact."""
        return self.touching and (self.bonded_contacts or self.limits is not None)

    def _reach(self, others: Array) -> Array:
        return 0.5 * (self.diameters + self.diameters[others])

    def _contacts(self, x: Vectors, around: Surroundings, total: Vectors) -> Vectors:
        """`total` and the contacts with neighbours."""

        def reading() -> Callable[[Array], Vectors]:
            read = self._near(x)
            return lambda k: contacts.force(self.contact, 0.0, less(x, read(k)), self._reach(k))

        return self._over_lists(reading, around, total)

    def _over_lists(self, reading: Callable[[], Any], around: Surroundings, total: Vectors) -> Vectors:
        """`total` and what neighbours make, by a function of their numbers that `reading` makes where it is needed."""
        members, longest = around.lists.members, around.lists.longest
        size = -(-self.capacity // _STRETCHES)

        def rest(one: Any, first: int, total: Vectors) -> Vectors:
            if first >= self.capacity:
                return total

            def more(total: Vectors) -> Vectors:
                found = reading() if one is None else one
                return rest(found, first + size, _summed(found, members[first : first + size], total))

            return jax.lax.cond(longest > first, more, lambda total: total, total)

        return rest(None, 0, total)

    @property
    def damped(self) -> bool:
        return self.dampers is not None or self.contact_damping is not None

    def drag(self, places: Places, v: Vectors, omega: Vectors, rest: Rest, around: Surroundings) -> Loads:
        zero = (jnp.zeros(self.n, self.masses.dtype),) * 3
        force, moment, x, whole = zero, zero, places.x, self._whole(rest)
        own = (*x, *v, *omega)
        linked = self._linked(own)

        def stretched(slot: Any) -> tuple[Vectors, Vectors]:
            (axial, bending), end = slot
            apart = less(own, linked(end))
            return bonds.damping(axial, bending, apart[:3], apart[3:6], apart[6:])

        if self.bonds and self.dampers is not None:
            dampers = self.dampers if whole is None else scaled(whole, self.dampers)
            force, moment = _summed(stretched, (dampers, self._slot_ends), (zero, zero))
        c = self.contact_damping
        if c is None:
            return Loads(force, moment)

        def pressed(read: Callable[[Array], tuple[Array, ...]], which: Array, others: Array, share: Any) -> Vectors:
            apart = less((*x, *v), read(which)[:6])
            return contacts.force(0.0, c * share, apart[:3], self._reach(others), apart[3:])

        if self.touching:

            def reading() -> Callable[[Array], Vectors]:
                read = self._near((*x, *v))
                return lambda k: pressed(read, k, k, 1.0)

            force = self._over_lists(reading, around, force)
        if self._touching_bonded:
            share = jnp.ones_like(self.slots.sign) if self.bonded_contacts or whole is None else 1 - whole
            slots = self._slot_ends, self.slots.partner, share
            force = _summed(lambda slot: pressed(linked, *slot), slots, force)
        for distance, normal in self._faces(x):
            speed = sum(a * b for a, b in zip(normal, v, strict=True))
            force = moved(force, jnp.where(distance < 0.5 * self.diameters, -c * speed, 0.0), normal)
        return Loads(force, moment)

    # --- what is seen -----------------------------------------------------------------------------------------------

    def energies(self, state: State) -> dict[str, Array]:
        """Energy by part: translation, rotation, bending, axial, shear, contact, wall, gravity.

        That of contacts is NaN for states in which more than `capacity` particles touch one, from which no run starts.
        """
        x, q = columns(state[0]), columns(state[1])
        i, j = self.pairs[:, 0], self.pairs[:, 1]
        d = less(picked(x, i), picked(x, j))
        parts = bonds.energies(self.shear, self.per_bond, Pair(d, picked(q, i), picked(q, j), 1.0))
        whole = state[4] if len(state) > 4 else 1.0
        bending, axial, shear = (jnp.sum(whole * part) for part in parts)
        height = sum(self.masses * g * a for g, a in zip(self.gravity, x, strict=True))
        return {
            "translation": self.translational_energy(state),
            "rotation": self.rotational_energy(state),
            "bending": bending,
            "axial": axial,
            "shear": shear,
            "contact": self._contact_energy(x, d, whole),
            "wall": self._wall_energy(x),
            "gravity": -jnp.sum(height),
        }

    def _contact_energy(self, x: Vectors, d: Vectors, whole: Any) -> Array:
        total = jnp.zeros((), self.masses.dtype)
        if self.touching:
            # Without the skin: whatever touches in a run is in its lists, so there is room for it.
            found, code = self._search(x, self.capacity)
            delta = contacts.overlap(less(x, picked(x, found.members)), self._reach(found.members))[0]
            energy = 0.5 * jnp.sum(contacts.hertz_energy(self.contact, delta))
            total = jnp.where(code == 0, energy, jnp.nan)
        if self._touching_bonded:
            reach = 0.5 * (self.diameters[self.pairs[:, 0]] + self.diameters[self.pairs[:, 1]])
            energy = contacts.hertz_energy(self.contact, contacts.overlap(d, reach)[0])
            total = total + jnp.sum(energy if self.bonded_contacts else (1 - whole) * energy)
        return total

    def _wall_energy(self, x: Vectors) -> Array:
        total = jnp.zeros((), self.masses.dtype)
        for distance, _ in self._faces(x):
            delta = jnp.maximum(1 - 2 * distance / self.diameters, 0.0)
            total = total + jnp.sum(contacts.hertz_energy(self.wall_contact, delta))
        return total

    def potential_energy(self, state: State) -> Float[Array, ""]:
        return sum(value for name, value in self.energies(state).items() if name not in ("translation", "rotation"))  # type: ignore

    @property
    def conservative(self) -> bool:
        """Whether nothing is damped and nothing breaks."""
        return not self.damped and self.limits is None

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        if not self.free:
            return ()
        return ("linear_momentum", "spin" if self.shear == "literal" else "angular_momentum")

    def outputs(self) -> dict[str, Observable]:
        found = {
            **super().outputs(),
            "energies": lambda t, s: self.energies(s),
            "linear_momentum": lambda t, s: self.linear_momentum(s),
            "spin": lambda t, s: self.spin(s),
            "angular_momentum": lambda t, s: self.angular_momentum(s),
        }
        return found if self.limits is None else {**found, "whole": lambda t, s: s[4]}

    def invariants(self) -> dict[str, Observable]:
        energy = super().invariants() if self.conservative else {}
        outputs = self.outputs()
        return {**energy, **{name: outputs[name] for name in self.kept_momenta}}

    # --- stable steps -----------------------------------------------------------------------------------------------

    @property
    def has_waves(self) -> bool:
        return self.bonds > 0 or self.touching or bool(self.walls) or self.damped

    def frequency(self) -> Float[Array, ""]:
        """An upper bound of the frequencies of stretching and bending at rest, in radians per unit of time."""
        k, held = self.constants, self.slots.sign != 0
        stretching = jnp.max(2 * jnp.sum(held * k.axial / k.length**2, axis=0) / self.masses, initial=0.0)
        bending = jnp.max(2 * jnp.sum(held * k.bending, axis=0) / self.inertias, initial=0.0)
        return jnp.sqrt(jnp.maximum(stretching, bending))

    def contact_frequency(self, velocities: Any) -> Float[Array, ""]:
        """Of contacts that stop the fastest of these velocities, shape (n, 3), at their largest depth."""
        v = jnp.asarray(velocities)
        speed = lambda v: jnp.sqrt(jnp.max(jnp.sum(v * v, axis=1)))  # noqa: E731
        m, D = jnp.min(self.masses), jnp.min(self.diameters)

        def hertz(K: Array, mass: Array, speed: Array, reach: Array) -> Array:
            depth = (1.25 * mass * speed**2 / jnp.where(K > 0, K, 1.0)) ** 0.4
            return jnp.sqrt(1.5 * K * jnp.sqrt(depth) / mass) / reach

        pairs = hertz(self.contact, 0.5 * m, 2 * speed(v - jnp.mean(v, axis=0)), D) if self.n > 1 else jnp.zeros(())
        return jnp.maximum(pairs, hertz(self.wall_contact, m, speed(v), 0.5 * D)) if self.walls else pairs

    def damping_rate(self) -> Float[Array, ""]:
        """An upper bound of the rates at which dampers of bonds and one contact slow particles down."""
        rates = [jnp.zeros(())]
        if self.dampers is not None:
            held = self.slots.sign != 0
            over = zip(self.dampers, (self.masses, self.inertias), strict=True)
            rates += [jnp.max(2 * jnp.sum(held * c, axis=0) / inertia, initial=0.0) for c, inertia in over]
        if self.contact_damping is not None:
            rates.append(2 * self.contact_damping / jnp.min(self.masses))
        return jnp.max(jnp.stack(rates))

    def explicit_limit(self, t: float, state: State, h: float, share: float = 1.0) -> str:
        bonds, contacts, rate = map(float, (self.frequency(), self.contact_frequency(state[2]), self.damping_rate()))
        limits = {
            f"The stiffest bonds swing with up to {bonds:.4g} per unit of time": 2 / bonds if bonds else np.inf,
            f"Contacts that stop the speeds of the start swing with up to {contacts:.4g} per unit of time": (
                2 / contacts if contacts else np.inf
            ),
            f"Dampers slow particles down at up to {rate:.4g} per unit of time": 4 / rate if rate else np.inf,
        }
        said, limit = min(limits.items(), key=lambda item: item[1])
        if abs(h) <= share * limit:
            return ""
        return (
            f"{said}, so that explicit methods need steps below {limit:.3g}; h = {abs(h):.4g}. Take half of that limit "
            "or less."
        )


@compiled
def _overlaps(system: Particles, positions: Array, room: int) -> tuple[Array, Array]:
    """δ of every particle with up to `room` others, shape (room, n), and their numbers."""
    x = columns(positions)
    members = system._search(x, room)[0].members
    d = less(x, picked(x, members))
    depth = contacts.overlap(d, system._reach(members))[0]
    # Contacts at one place have no direction and no force.
    together = (d[0] == 0) & (d[1] == 0) & (d[2] == 0) & (members != jnp.arange(system.n))
    return jnp.where(together, 1.0, depth), members


def _room(x: np.ndarray, diameters: Any, skin: Any, links: np.ndarray) -> int:
    """Half as many neighbours again as the particle has that has most of them at the start, and never few."""
    if not checks.is_concrete(diameters, skin):
        return _ROOM
    sizes = np.broadcast_to(np.asarray(diameters, float), len(x))
    reach = 0.5 * (sizes + skin * sizes.max())
    close = scipy.spatial.KDTree(x).query_pairs(2 * reach.max(), output_type="ndarray").reshape(-1, 2)
    near = np.linalg.norm(x[close[:, 0]] - x[close[:, 1]], axis=1) < reach[close].sum(axis=1)
    number = lambda pairs: np.sort(pairs, axis=1) @ np.array([len(x), 1])  # noqa: E731
    free = close[near & ~np.isin(number(close), number(links))]
    crowd = int(np.bincount(free.reshape(-1), minlength=1).max())
    return max(_ROOM, crowd + (crowd + 1) // 2)


def _summed(one: Callable[[Any], Any], slots: Any, zero: Any) -> Any:
    """Sums over the first axis of `slots` of what each makes: one after the other, so that every pass is one of long
    loops over the particles, and little is stored.
    """

    def add(total: Any, slot: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, one(slot)), None

    few = jax.tree.leaves(zero)[0].shape[0] < _MANY
    return jax.lax.scan(add, zero, slots, unroll=_UNROLLED if few else 1)[0]
