"""Spheres with bonds, contacts and walls as a system."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
import numpy as np
import scipy
from jaxtyping import Array

from polhode import checks
from polhode.particles import bonds
from polhode.particles.bonds import BondMaterial, Constants, Shear
from polhode.particles.checks import (
    bond_kinds,
    bond_pairs,
    cast_law,
    check_period,
    contact_laws,
    group_numbers,
    materials,
    nearest_image,
    not_negative,
    outlet_planes,
    per_particle,
    period_of,
    release_times,
    walls_of,
)
from polhode.particles.diagnostics import AbstractParticles
from polhode.particles.neighbours import Neighbours, search
from polhode.particles.walls import AbstractWall, Plane
from polhode.spaces.component_arrays import Vectors, columns, select
from polhode.systems.separable import Rest

_ROOM, _LAW_ROOM = 12, 16
"""Least capacity of neighbour lists: as many equal spheres touch one, and some more are within the skin of a heap that
was poured. With a `ContactLaw` heaps are what is expected."""


class Particles(AbstractParticles):
    r"""n spheres with bonds, Hertzian contacts, walls and gravity.

    Energies and forces of bonds: `BondMaterial`. Contacts: $\tfrac25K\delta^{5/2}$ with $\delta = [1-l/D]_+$ and D the
    mean of both diameters; of walls the same with D half a diameter and l the distance. Particles that are bonded
    are in contact only where `bonded_contacts` says so, or once their bond is broken.

    Every particle sums the loads of its own bonds and neighbours, so nothing is scattered; pairs are computed twice.

    **Arguments:**

    - `masses`, `inertias`, `diameters`: shape (n,), or one number for all.
    - `positions`: shape (n, 3), from which bonds take their lengths at rest; attitudes are the identity there.
    - `pairs`: numbers of the particles of each bond, shape (m, 2).
    - `material`: one `BondMaterial` for all bonds, or a sequence of them with `kinds`, shape (m,), that says which.
    - `shear`: "objective", or "literal" for the law as printed, under which a rigid rotation costs energy: it keeps
      ΣJΩ instead of Σ(x × mv + JΩ).
    - `contact`: K of contacts between particles, an energy; 0 for none; or a `ContactLaw`, with friction and history.
    - `wall_contact`: the same of walls; None for that of particles.
    - `contact_damping`: force along the line of centres per speed of approach, while particles or walls touch.
    - `bonded_contacts`: whether particles with a bond are in contact as well.
    - `walls`: of `polhode.particles`, at rest or, with a `ContactLaw`, in a `MovingWall`.
    - `release`: times from which on particles act, shape (n,); until then they stay where they are, without loads and
      contacts, so that many may wait at one inlet. From the first step that ends then or later.
    - `outlets`: `Plane`s behind which particles touch neither each other nor walls any more; they fall freely.
    - `gravity`: acceleration, shape (3,).
    - `period`: lengths after which space repeats along the axes, shape (3,), infinite where it is open; None for open
      space. Positions in states go on beyond it, so that nothing jumps. Walls are in the image from 0 to the length.
    - `skin`: distance beyond the reach of contacts within which neighbours are listed, as a share of the largest
      diameter; lists are rebuilt when a particle has moved by half of it relative to the mean.
    - `capacity`: length of the neighbour lists; None for 12, or 16 with a `ContactLaw`, or 1.5 times the number at the
      start if that is more.
    - `contact_outputs`: whether states keep the force moments and the numbers of contacts of particles, for the outputs
      `force_moments` and `contact_counts`; needs a `ContactLaw`.
    - `groups`: a number for each particle, shape (n,); those with the same one have no contact with each other.
    - `dtype`: "float64", or "float32": a ring of 12 then keeps its energy to 1e-5 over 1,000 steps.

    - Momenta kept to round-off: Σmv without walls and gravity; then also ΣJΩ with the literal law, and
      Σ(x × mv + JΩ) with the objective one.

    Raises ValueError for shapes that don't fit, pairs that don't exist or occur twice, and particles at one place.
    """

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
        release: Any = None,
        outlets: Sequence[Plane] = (),
        gravity: Any = (0.0, 0.0, 0.0),
        period: Any = None,
        skin: float = 0.2,
        capacity: int | None = None,
        contact_outputs: bool = False,
        groups: Any = None,
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
        self.law, self.wall_law = (cast_law(law, kind) for law in contact_laws(contact, wall_contact, contact_damping))
        self.contact_outputs = checks.flag("contact_outputs", contact_outputs)
        if self.contact_outputs and self.law is None and self.wall_law is None:
            raise ValueError("`contact_outputs` needs a `ContactLaw` as `contact` or `wall_contact`.")
        contact = 0.0 if self.law is not None else contact
        self.contact = number("contact", contact)
        at_walls = contact if wall_contact is None or self.wall_law is not None else wall_contact
        self.wall_contact = number("wall_contact", at_walls)
        has_damping = not (checks.is_concrete(contact_damping) and np.asarray(contact_damping) == 0)
        self.contact_damping = number("contact_damping", contact_damping) if has_damping else None
        self.walls = walls_of(walls, self.wall_contact if self.wall_law is None else 1.0, self.wall_law is not None)
        self.wall_law = self.wall_law if self.walls else None
        if self.wall_law is not None:
            radius = 0.5 * jnp.max(self.diameters)
            self.walls = tuple(wall.prepare(radius + self.wall_law.reach(radius)) for wall in self.walls)
        self.alike = checks.is_concrete(masses, diameters) and all(
            np.ptp(np.asarray(a)) == 0 for a in (masses, diameters)
        )
        self.shear, self.bonded_contacts = shear, bool(bonded_contacts)
        box, self.repeats = period_of(period)
        self.lengths = jnp.asarray(np.ones(3) if box is None else np.where(np.isfinite(box), box, 1.0), kind)
        links = bond_pairs(pairs, n)
        self.release = release_times(release, n, self.law is not None, links)
        self.outlets = outlet_planes(outlets, self.law is not None)
        self.groups = group_numbers(groups, n)
        self._bond(x, links, box, material, kinds, kind)
        self.touching = not (checks.is_concrete(contact) and float(contact) == 0)
        if self.law is not None:
            self.touching = n > 1
        range_ = 0.0 if self.law is None else self.law.reach(0.25 * jnp.max(self.diameters))
        self.attraction = jnp.asarray(range_, kind)
        checks.positive("skin", skin, (), "share of the largest diameter")
        self.skin = (skin * jnp.max(self.diameters)).astype(kind)
        self.free = not self.walls and checks.is_concrete(gravity) and not np.any(np.asarray(gravity))
        self.capacity = 0
        if self.repeats is not None and checks.is_concrete(diameters, skin, self.attraction):
            reach = float(jnp.max(self.diameters) + self.skin + self.attraction)
            check_period(box, reach)
        if self.touching:
            least = _ROOM if self.law is None else _LAW_ROOM
            room = capacity
            if room is None:
                room = _room(least, x, diameters, skin, links, box, release, groups)
            self.capacity = min(checks.count("capacity", room, "neighbours for which there is room"), max(n - 1, 1))

    def _bond(
        self, x: np.ndarray, links: np.ndarray, box: np.ndarray | None, material: Any, kinds: Any, kind: Any
    ) -> None:
        n, m = len(x), len(links)
        d0 = nearest_image(x[links[:, 0]] - x[links[:, 1]], box)
        length = np.linalg.norm(d0, axis=1)
        if m and not np.all(length > 0):
            first = links[int(np.argmin(length))]
            raise ValueError(f"Particles {first[0]} and {first[1]} are bonded and at the same place.")
        choices = materials(material, m)
        which = bond_kinds(kinds, m, len(choices))
        of = lambda read: jnp.stack([jnp.asarray(read(k), float) for k in choices])[which].astype(kind)  # noqa: E731
        arm = columns(jnp.asarray(d0, kind))
        per = Constants(
            of(lambda k: k.bending), of(lambda k: k.axial), of(lambda k: k.shear), jnp.asarray(length, kind), arm
        )
        self.pairs, self.slots = jnp.asarray(links, jnp.int32), bonds.slots(n, links)
        self.slots = self.slots._replace(sign=self.slots.sign.astype(kind))

        def at_slots(a: Array, one: bool = False, padding: float = 0.0) -> Array:
            # With one material all slots hold one value, which is read once: a fifth of the time of large systems.
            if one and m:
                return jnp.broadcast_to(a[:1], (self.slots.bond.shape[0], 1))
            return jnp.append(a, jnp.asarray(padding, kind))[self.slots.bond]

        alike = len(choices) == 1
        self.per_bond = per
        self.constants = Constants(
            bending=at_slots(per.bending, alike),
            axial=at_slots(per.axial, alike),
            shear=at_slots(per.shear, alike),
            length=at_slots(per.length, padding=1.0),
            arm=tuple(map(at_slots, arm)),
        )
        dampers = of(lambda k: k.axial_damping), of(lambda k: k.bending_damping)
        some = not (checks.is_concrete(dampers) and not any(np.any(np.asarray(a)) for a in dampers))
        self.dampers = (at_slots(dampers[0], alike), at_slots(dampers[1], alike)) if some else None
        self.limits = None
        if any(k.strength is not None and k.strength.is_finite for k in choices):
            bears = lambda name: of(lambda k: np.inf if k.strength is None else getattr(k.strength, name))  # noqa: E731
            self.limits = bears("tension"), bears("moment"), bears("shear")

    # --- on one device ----------------------------------------------------------------------------------------------

    @property
    def states(self) -> Any:
        return self.state_type

    def to_storage_order(self, a: Array) -> Array:
        return a

    @property
    def intact(self) -> Array:
        return jnp.ones(self.bonds, self.masses.dtype)

    def of_particles(self, a: Array) -> Array:
        return a

    def of_bonds(self, a: Array) -> Array:
        return a

    def user_number(self, which: int) -> int:
        return which

    def search(
        self,
        x: Vectors,
        capacity: int,
        skin: Any = 0.0,
        whole: Array | None = None,
        active: Array | None = None,
    ) -> tuple[Neighbours, Array]:
        reach = 0.5 * (self.diameters + skin + self.attraction)
        partners = self.excluded_partners(whole, jnp.arange(self.n, dtype=jnp.int32))
        cell = 2 * jnp.max(reach)
        return search(x, reach, cell, partners, capacity, period=self.period, active=active, groups=self.groups)

    def bond_reader(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        return lambda which: select(a, which)

    def neighbour_reader(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        return lambda which: select(a, which)

    def reach(self, others: Array) -> Array:
        return 0.5 * (self.diameters + self.diameters[others])

    @property
    def ends_of_slots(self) -> Array:
        return self.slots.partner

    @property
    def ends_of_bonds(self) -> tuple[Array, Array]:
        return self.pairs[:, 0], self.pairs[:, 1]

    def whole(self, rest: Rest) -> Array | None:
        if self.limits is None:
            return None
        return jnp.concatenate((rest[0], jnp.zeros(1, rest[0].dtype)))[self.slots.bond]


def _room(
    least: int,
    x: np.ndarray,
    diameters: Any,
    skin: Any,
    links: np.ndarray,
    box: np.ndarray | None,
    release: Any,
    groups: Any,
) -> int:
    """1.5 times the largest number of neighbours at the start, of those there at time 0, and at least `least`."""
    if not checks.is_concrete(diameters, skin):
        return least
    sizes = np.broadcast_to(np.asarray(diameters, float), len(x))
    kin = np.arange(len(x)) if groups is None else np.asarray(groups)
    if release is not None:
        if not checks.is_concrete(release):
            return least
        there = np.asarray(release) <= 0
        x, sizes, kin = x[there], sizes[there], kin[there]
    if not len(x):
        return least
    reach = 0.5 * (sizes + skin * sizes.max())
    size = None if box is None else np.where(np.isfinite(box), box, 0.0)
    places = x if size is None else np.where(size > 0, np.mod(x, np.where(size > 0, size, 1.0)), x)
    close = (
        scipy.spatial.KDTree(places, boxsize=size).query_pairs(2 * reach.max(), output_type="ndarray").reshape(-1, 2)
    )
    d = nearest_image(x[close[:, 0]] - x[close[:, 1]], box)
    near = (np.linalg.norm(d, axis=1) < reach[close].sum(axis=1)) & (kin[close[:, 0]] != kin[close[:, 1]])
    number = lambda pairs: np.sort(pairs, axis=1) @ np.array([len(x), 1])  # noqa: E731
    free = close[near & ~np.isin(number(close), number(links))]
    crowd = int(np.bincount(free.reshape(-1), minlength=1).max())
    return max(least, crowd + (crowd + 1) // 2)
