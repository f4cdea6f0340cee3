"""Loads between spheres with bonds, contacts and walls."""

from __future__ import annotations

import abc
from collections.abc import Callable
from functools import partial
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float, Int

from polhode.particles import bonds, contacts
from polhode.particles.bonds import Constants, Pair, Shear, Slots
from polhode.particles.contact_history import ContactMemory, Total, add_pairs, follow
from polhode.particles.laws.contact_law import ContactLaw
from polhode.particles.ledger import STORES, Sums, kick_energy, no_sums, works
from polhode.particles.neighbours import Neighbours, Period, stale
from polhode.particles.wall_contacts import add_walls
from polhode.particles.walls import POSE, AbstractSmoothWall, AbstractWall, Plane
from polhode.result_codes import Result
from polhode.spaces.component_arrays import Vectors, add, add_scaled, dot, rows, scale, select, subtract
from polhode.spaces.linear import Rn
from polhode.spaces.powers import power
from polhode.spaces.products import product
from polhode.systems.separable import AbstractSeparable, BodyStates, Loads, Motion, PoseComponents, Rest, Surroundings

_UNROLL, _MANY = 4, 30_000
"""Bonds or neighbours evaluated per pass over the particles; one at a time from this number of particles on, where the
data of a pass no longer fits into the caches."""

OVERLAP = 0.3
"""Largest overlap of particles at the start and when they are released, relative to their reach."""

CONTACT_OUTPUTS = 10
"""Numbers of a particle in `GrainStates.contacts`."""

_STRETCHES = 4
"""Number of parts of neighbour lists; empty parts are skipped."""


class ParticleStates(NamedTuple):
    """`BodyStates` of particles whose bonds can break. `whole`: 1 for each bond that holds and 0 for a broken one."""

    x: Float[Array, "n 3"]
    q: Float[Array, "n 4"]
    v: Float[Array, "n 3"]
    omega: Float[Array, "n 3"]
    whole: Float[Array, " m"]


class GrainStates(NamedTuple):
    """`ParticleStates` of particles whose contacts have history.

    - `accounts`: energies that contacts store, then those that they have dissipated since the start, in the order of
      `stored_names` and `lost_names` of the system; then the work of walls that move, if there are any.
    - `poses`: displacement and quaternion of each wall that moves, seven numbers each.
    - `contacts`: Σ f ⊗ (point of contact - centre) of each particle, row by row, and the number of its contacts; shape
      (0,) without `contact_outputs`.
    """

    x: Float[Array, "n 3"]
    q: Float[Array, "n 4"]
    v: Float[Array, "n 3"]
    omega: Float[Array, "n 3"]
    whole: Float[Array, " m"]
    accounts: Float[Array, " k"]
    poses: Float[Array, " 7w"]
    contacts: Float[Array, "n 10"]


class AbstractSphereInteractions(AbstractSeparable):
    """Interactions between spheres on one device or in domains of several.

    Every particle sums the loads of its own bonds and neighbours, so nothing is scattered; pairs are computed twice.
    Derived classes define how particles read each other.

    - `slots`, `constants`, `dampers`: of the bonds of each particle, shape (most bonds of one, n); `pairs`, `per_bond`,
      `limits`: of each bond.
    - `release`, `outlets`: when particles begin to act, and behind what they touch nothing any more.
    - `law`, `wall_law`: of contacts with history, in place of `contact` and `wall_contact`. - `attraction`: distance of
      surfaces at which contacts may still hold. - `lengths`, `repeats`: see `Period`; None if all axes are open.
    - `groups`: a number for each particle; those with the same one have no contact. None if all may touch.
    - `alike`: whether all masses and diameters are equal.
    - `free`: whether neither walls nor gravity act. - `touching`: whether particles have contacts.
    - `capacity`: length of the neighbour lists. The others: see `Particles`.
    """

    kind_name: ClassVar = "system of particles"

    is_whole: ClassVar[bool] = True
    """Whether all particles are on one device."""

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
    release: Float[Array, " n"] | None
    outlets: tuple[Plane, ...]
    law: ContactLaw | None
    wall_law: ContactLaw | None
    groups: Int[Array, " n"] | None
    attraction: Float[Array, ""]
    lengths: Float[Array, "3"]
    repeats: tuple[bool, bool, bool] | None = eqx.field(static=True)
    skin: Float[Array, ""]
    alike: bool = eqx.field(static=True)
    shear: Shear = eqx.field(static=True)
    bonded_contacts: bool = eqx.field(static=True)
    touching: bool = eqx.field(static=True)
    contact_outputs: bool = eqx.field(static=True)
    capacity: int = eqx.field(static=True)
    free: bool = eqx.field(static=True)

    @property
    def period(self) -> Period | None:
        """Lengths after which space repeats; None if it doesn't."""
        return None if self.repeats is None else Period(tuple(self.lengths), self.repeats)

    def apart(self, a: Vectors, b: Vectors) -> Vectors:
        """a - b, to the nearest image."""
        d = subtract(a, b)
        return d if self.period is None else self.period.nearest(d)

    def wrap(self, x: Vectors) -> Vectors:
        """Places in the first image of space, which walls are in."""
        return x if self.period is None else self.period.wrap(x)

    # How particles read each other: the only differences between one and several devices.

    def active(self, x: Vectors, t: Any) -> Array | None:
        """Which particles touch others and walls at t: those released by then that haven't passed an outlet; None if
        all do."""
        parts = [] if self.release is None else [self.release <= t]
        for outlet in self.outlets:
            ((distance, _),) = outlet.faces(x)
            parts.append(distance > 0)
        return jnp.all(jnp.stack(parts), axis=0) if parts else None

    @abc.abstractmethod
    def search(
        self,
        x: Vectors,
        capacity: int,
        skin: Any = 0.0,
        whole: Array | None = None,
        active: Array | None = None,
    ) -> tuple[Neighbours, Array]:
        """Lists of neighbours within reach and half the skin, and a `Result` code.

        `whole`: 1 for each bond at the slots that keeps its ends out of the lists; None if all do. `active`: which
        particles have neighbours; None if all do.
        """

    @abc.abstractmethod
    def bond_reader(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        """A function that reads `a` at ends of bonds, by the numbers in `ends_of_slots` and `ends_of_bonds`."""

    @abc.abstractmethod
    def neighbour_reader(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        """A function that reads `a` of any particles by number."""

    @abc.abstractmethod
    def reach(self, others: Array) -> Array:
        """Distances at which particles touch those with these numbers, shape (k, n)."""

    @abc.abstractmethod
    def whole(self, rest: Rest) -> Array | None:
        """1 for each bond at the slots that holds and 0 for a broken one; None if none can break."""

    @property
    @abc.abstractmethod
    def ends_of_slots(self) -> Array:
        """Numbers for `bond_reader` of the partners at the slots."""

    @property
    @abc.abstractmethod
    def ends_of_bonds(self) -> tuple[Array, Array]:
        """Numbers for `bond_reader` of both ends of each bond."""

    @property
    def state_type(self) -> Any:
        """The named tuple of states."""
        if self.has_history:
            return GrainStates
        return BodyStates if self.limits is None else ParticleStates

    @property
    def bonds(self) -> int:
        """Number of bonds."""
        return self.pairs.shape[0]

    @property
    def state_space(self) -> Any:
        space = super().state_space
        if self.has_history:
            accounts = len(self.stored_names) + len(self.flow_names)
            contacts = power(Rn(CONTACT_OUTPUTS), self.n) if self.contact_outputs else Rn(0)
            return product(*space.spaces, Rn(self.bonds), Rn(accounts), Rn(POSE * self.moving_walls), contacts)
        return space if self.limits is None else product(*space.spaces, Rn(self.bonds))

    # --- contacts with history ----------------------------------------------------------------------------------------

    @property
    def has_history(self) -> bool:
        return self.law is not None or self.wall_law is not None

    @property
    def stored_names(self) -> tuple[str, ...]:
        """Names of the energies that contacts with history store."""
        of_pairs, of_walls = (() if law is None else law.energy_names for law in (self.law, self.wall_law))
        walls = ("wall" if name == "contact" else name for name in of_walls)
        return tuple(dict.fromkeys((*of_pairs, *walls)))

    @property
    def lost_names(self) -> tuple[str, ...]:
        """Names of the energies that contacts with history dissipate, and of what steps do to the energy."""
        laws = (law for law in (self.law, self.wall_law) if law is not None)
        names = tuple(dict.fromkeys(name for law in laws for name in law.loss_names))
        names += ("breaking",) if self.limits is not None else ()
        return (*names, "numerical") if self.has_history and (names or self.moving_walls) else ()

    @property
    def work_kinds(self) -> tuple[str, ...]:
        """Kinds of the loads of contacts, and that of bonds."""
        laws = (law for law in (self.law, self.wall_law) if law is not None)
        return (*dict.fromkeys(kind for law in laws for kind in law.kinds), *(("bond",) if self.bonds else ()))

    @property
    def moving_walls(self) -> int:
        """Number of walls that move."""
        return sum(wall.moves for wall in self.walls)

    @property
    def flow_names(self) -> tuple[str, ...]:
        """Names of the energies that are summed up over time: `lost_names`, and the work of walls that move."""
        return (*self.lost_names, *(("work",) if self.moving_walls else ()))

    def loads_after(self, motion: Motion, rest: Rest, around: Surroundings) -> tuple[Loads, Rest, Surroundings]:
        if not self.has_history:
            return super().loads_after(motion, rest, around)
        before = around.lists.sums
        total, poses, around = self.contact_sums(motion, rest, around)
        loads = total.sums.add_to(self._gravity(motion.t + motion.h))
        kicks = lambda: kick_energy(motion, loads, self.masses, self.inertias)  # noqa: E731
        accounts = self.accounts_after(motion, rest[1], before, total, kicks)
        contacts = rows(total.tensor) if self.contact_outputs else rest[3]
        return loads, (rest[0], accounts, poses, contacts), around

    def contact_sums(self, motion: Motion, rest: Rest, around: Surroundings) -> tuple[Total, Array, Surroundings]:
        """Sums over contacts with history and bonds after a motion, the poses of walls, and the surroundings."""
        memory, kind = around.lists, self.masses.dtype
        each = () if self.is_whole and not self.touching else self.n
        zeros = lambda names: {name: jnp.zeros(each, kind) for name in names}  # noqa: E731
        tensor = (jnp.zeros(self.n, kind),) * (CONTACT_OUTPUTS if self.contact_outputs else 0)
        sums = self._no_sums()
        if self.bonds:
            sums.loads["bond"] = Loads(*self._bond_loads(motion.places, rest))
        total, poses = Total(sums, zeros(self.stored_names), zeros(("cohesion",)), tensor), rest[2]
        if self.wall_law is not None:
            total, walls, poses, code = add_walls(self, self.wall_law, motion, memory.walls, poses, total)
            memory = memory._replace(walls=walls)
            around = around._replace(result=jnp.maximum(around.result, code))
        if self.touching and self.law is not None:
            total, pairs = add_pairs(self, self.law, motion, memory, total)
            memory = memory._replace(pairs=pairs)
        return total, poses, around._replace(lists=memory._replace(sums=total.sums))

    def _no_sums(self) -> Sums:
        return no_sums(self.work_kinds, self.moving_walls > 0, self.n, self.masses.dtype)

    def accounts_after(
        self, motion: Motion, accounts: Array, before: Sums, total: Total, kicks: Callable[[], Array]
    ) -> Array:
        """Stored energies after a step, then what was lost until then, then the work of walls that move.

        `before`: sums at the start of the step. `kicks`: returns the gain of kinetic energy beyond the work of loads.

        Loads of a kind lose what they take from the particles and don't store. What elastic ones lose is cohesion where
        contacts are made or torn; the rest is what steps of finite length do to the energy. For bonds that is without
        their energy, which is known from states.
        """
        kind, names = self.masses.dtype, self.stored_names
        stored = {name: jnp.sum(total.stored[name]) for name in names}
        gain = {name: value - accounts[k] for k, (name, value) in enumerate(stored.items())}
        flows = jnp.zeros(0, kind)
        if self.flow_names:
            work = works(motion, before, total.sums)
            lost = {
                name: -work.inner[name] - sum(gain[s] for s in STORES[name]) for name in STORES if name in work.inner
            }
            # Bonds break before, in `after_move`.
            lost |= {"cohesion": jnp.sum(total.lost["cohesion"]), "breaking": jnp.zeros((), kind)}
            elastic = -work.inner["elastic"] - sum(gain[name] for name in ("contact", "wall") if name in gain)
            numerical = elastic - lost["cohesion"] - kicks() - work.inner.get("bond", 0.0)
            # The start is no step: what is overlapped there has its energy from nowhere.
            lost |= {"numerical": jnp.where(motion.h != 0, numerical, 0.0), "work": sum(work.walls.values())}
            flows = jnp.stack([jnp.asarray(lost[name], kind) for name in self.flow_names])
        flows = flows + accounts[len(names) :]
        return jnp.concatenate((jnp.stack(list(stored.values())), flows)).astype(kind)

    # --- what acts --------------------------------------------------------------------------------------------------

    def surroundings(self, places: PoseComponents, rest: Rest, t: Any) -> Surroundings:
        if not self.touching and not self.has_history:
            return super().surroundings(places, rest, t)
        kind, code, active = self.masses.dtype, jnp.zeros((), jnp.int32), self.active(places.x, t)
        lists = Neighbours(jnp.zeros((0, self.n), jnp.int32), places.x, code)
        if self.touching:
            whole = self.whole(rest) if self.has_history else None
            lists, code = self.search(places.x, self.capacity, self.skin, whole, active)
        if not self.has_history:
            return Surroundings(lists, code)
        pairs: Any = () if self.law is None else self.law.start(lists.members.shape, kind)
        law = self.wall_law
        walls = () if law is None else tuple(wall.start(law, self.n, kind) for wall in self.walls)
        return Surroundings(ContactMemory(*lists, pairs, walls, self._no_sums(), active), code)

    def after_move(self, places: PoseComponents, rest: Rest, around: Surroundings, t: Any) -> tuple[Rest, Surroundings]:
        breaks = jnp.zeros((), bool)
        if self.limits is not None:
            whole = rest[0] * self._intact_bonds(places)
            breaks = jnp.any(whole != rest[0])
            if self.has_history:
                lose = lambda accounts: accounts + self._breakage(places, rest[0] - whole)  # noqa: E731
                rest = (rest[0], jax.lax.cond(breaks, lose, lambda accounts: accounts, rest[1]), *rest[2:])
            rest = (whole, *rest[1:])
        if self.walls and self.wall_law is None:
            through = [jnp.any(distance < -self.diameters) for distance, _ in self.faces(places.x)]
            code = jnp.where(jnp.any(jnp.stack(through)), int(Result.lost_particles), 0).astype(jnp.int32)
            around = around._replace(result=jnp.maximum(around.result, code))
        if not self.touching:
            return rest, around
        active = self.active(places.x, t)
        is_stale = stale(around.lists, places.x, self.skin, active)
        if active is not None:
            is_stale = is_stale | jnp.any(active != around.lists.active)
        if self.law is None:
            search = lambda around, x: Surroundings(*self.search(x, self.capacity, self.skin))  # noqa: E731
            return rest, jax.lax.cond(is_stale, search, lambda around, x: around, around, places.x)

        # What walls and sums remember stays out of the branches, which would copy it in every step.
        memory = around.lists._replace(walls=(), sums=())

        def renew(memory: ContactMemory, result: Array, x: Vectors, rest: Rest) -> tuple[ContactMemory, Array]:
            # Ends of bonds that broke are neighbours from now on.
            lists, code = self.search(x, self.capacity, self.skin, self.whole(rest), active)
            if self.release is not None and active is not None and memory.active is not None:
                code = jnp.maximum(code, self._blockage(x, lists.members, active & ~memory.active))
            return follow(memory, lists)._replace(active=active), code

        keep = lambda memory, result, x, rest: (memory, result)  # noqa: E731
        memory, code = jax.lax.cond(is_stale | breaks, renew, keep, memory, around.result, places.x, rest)
        old = around.lists
        return rest, Surroundings(memory._replace(walls=old.walls, sums=old.sums), code)

    def _intact_bonds(self, places: PoseComponents) -> Array:
        """1 where a bond bears its load, 0 where it breaks; independent of the order of bonds."""
        reader = self.bond_reader((*places.x, *places.q))
        a, b = map(reader, self.ends_of_bonds)
        pair = Pair(self.apart(a[:3], b[:3]), a[3:], b[3:], 1.0)
        assert self.limits is not None
        share = bonds.stress(self.shear, self.per_bond, pair, self.limits)
        return jnp.where(share > 1, 0.0, 1.0).astype(self.masses.dtype)

    def _blockage(self, x: Vectors, members: Array, new: Array) -> Array:
        """A `Result` code: whether new particles are where others are, from which they would burst apart."""
        d = self.apart(x, select(x, members))
        depth = contacts.overlap(d, self.reach(members))[0]
        together = (dot(d, d) == 0) & (members != jnp.arange(self.n))
        blocked = jnp.any(new & (together | (depth > OVERLAP)))
        return jnp.where(blocked, int(Result.inlet_blocked), 0).astype(jnp.int32)

    def _breakage(self, places: PoseComponents, broken: Array) -> Array:
        """Gains of accounts where bonds break: their energy is lost, but for that of contacts that begin overlapped.

        Such contacts store energy without work, which `accounts_after` takes for numerical.
        """
        reader = self.bond_reader((*places.x, *places.q, self.diameters))
        a, b = map(reader, self.ends_of_bonds)
        pair = Pair(self.apart(a[:3], b[:3]), a[3:7], b[3:7], 1.0)
        lost = jnp.sum(broken * sum(bonds.energies(self.shear, self.per_bond, pair)))
        begun = jnp.zeros_like(lost)
        if (
            self.law is not None
            and self.touching
            and not self.bonded_contacts
            and "cohesion" not in self.law.loss_names
        ):
            overlap = 0.5 * (a[7] + b[7]) - jnp.sqrt(dot(pair.d, pair.d))
            energy = self.law.normal.elastic(overlap, 0.5 * a[7] * b[7] / (a[7] + b[7])).energy
            begun = jnp.sum(broken * energy)
        gains = {"breaking": lost - begun, "numerical": begun - lost}
        zero = jnp.zeros_like(lost)
        return jnp.stack([gains.get(name, zero) for name in (*(("",) * len(self.stored_names)), *self.flow_names)])

    def loads(self, places: PoseComponents, rest: Rest, around: Surroundings) -> Loads:
        force, moment = self._gravity()
        if self.bonds:
            f, torque = self._bond_loads(places, rest)
            force, moment = add(force, f), torque
        if self.touching and self.law is None:
            force = self._contacts(places.x, around, force)
        for distance, normal in self.faces(places.x) if self.wall_law is None else ():
            radius = 0.5 * self.diameters
            delta = jnp.maximum(1 - distance / radius, 0.0)
            force = add_scaled(force, contacts.hertz(self.wall_contact, delta) / radius, normal)
        return Loads(force, moment)

    def _gravity(self, t: Any = None) -> Loads:
        masses = self.masses if self.release is None else jnp.where(self.release <= t, self.masses, 0.0)
        return Loads(tuple(masses * g for g in self.gravity), (jnp.zeros(self.n, self.masses.dtype),) * 3)

    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        """Of walls without a law, which are all smooth."""
        return [
            face for wall in self.walls if isinstance(wall, AbstractSmoothWall) for face in wall.faces(self.wrap(x))
        ]

    def _bond_loads(self, places: PoseComponents, rest: Rest) -> tuple[Vectors, Vectors]:
        whole = self.whole(rest)
        x, q = places
        reader = self.bond_reader((*x, *q))

        def one(slot: Any) -> tuple[Vectors, Vectors]:
            k, sign, end, partner, whole = slot
            there = reader(end)
            pair = Pair(self.apart(x, there[:3]), q, there[3:], sign)
            k = k if whole is None else k.scale(whole)
            if not self.touches_bonded:
                return bonds.loads(self.shear, k, pair)
            stiffness = self.contact if self.bonded_contacts or whole is None else (1 - whole) * self.contact
            return bonds.loads(self.shear, k, pair, partial(contacts.push, stiffness, self.reach(partner)))

        zero = (jnp.zeros(self.n, self.masses.dtype),) * 3
        partner = self.slots.partner if self.touches_bonded else None
        return _sum_slots(one, (self.constants, self.slots.sign, self.ends_of_slots, partner, whole), (zero, zero))

    def excluded_partners(self, whole: Array | None, me: Array) -> Array | None:
        """Numbers that neighbour lists leave out at each slot; None for no bonds."""
        partner = self.slots.partner
        if not partner.shape[0] or (self.law is not None and self.bonded_contacts):
            return None
        return partner if whole is None else jnp.where(whole > 0, partner, me)

    @property
    def touches_bonded(self) -> bool:
        """Whether ends of bonds may be in contact."""
        return self.touching and self.law is None and (self.bonded_contacts or self.limits is not None)

    def _contacts(self, x: Vectors, around: Surroundings, total: Vectors) -> Vectors:
        """`total` plus the contact forces of neighbours."""

        def make_force() -> Callable[[Array], Vectors]:
            reader = self.neighbour_reader(x)
            return lambda k: contacts.force(self.contact, 0.0, self.apart(x, reader(k)), self.reach(k))

        return self._over_lists(make_force, around, total)

    def _over_lists(self, make_force: Callable[[], Any], around: Surroundings, total: Vectors) -> Vectors:
        """`total` plus the forces of neighbours; `make_force` returns their force as a function of their numbers."""
        members, longest = around.lists.members, around.lists.longest
        size = -(-self.capacity // _STRETCHES)

        def rest(one: Any, first: int, total: Vectors) -> Vectors:
            if first >= self.capacity:
                return total

            def more(total: Vectors) -> Vectors:
                pair_force = make_force() if one is None else one
                return rest(pair_force, first + size, _sum_slots(pair_force, members[first : first + size], total))

            return jax.lax.cond(longest > first, more, lambda total: total, total)

        return rest(None, 0, total)

    @property
    def damped(self) -> bool:
        return self.dampers is not None or self.contact_damping is not None

    def drag(self, places: PoseComponents, v: Vectors, omega: Vectors, rest: Rest, around: Surroundings) -> Loads:
        zero = (jnp.zeros(self.n, self.masses.dtype),) * 3
        force, moment, x, whole = zero, zero, places.x, self.whole(rest)
        own = (*x, *v, *omega)
        at_partner = self.bond_reader(own)

        def bond_drag(slot: Any) -> tuple[Vectors, Vectors]:
            (axial, bending), end = slot
            there = at_partner(end)
            d, rates = self.apart(x, there[:3]), subtract(own[3:], there[3:])
            return bonds.damping(axial, bending, d, rates[:3], rates[3:])

        if self.bonds and self.dampers is not None:
            dampers = self.dampers if whole is None else scale(whole, self.dampers)
            force, moment = _sum_slots(bond_drag, (dampers, self.ends_of_slots), (zero, zero))
        c = self.contact_damping
        if c is None:
            return Loads(force, moment)

        def contact_drag(
            reader: Callable[[Array], tuple[Array, ...]], which: Array, others: Array, share: Any
        ) -> Vectors:
            there = reader(which)
            d, speed = self.apart(x, there[:3]), subtract(v, there[3:6])
            return contacts.force(0.0, c * share, d, self.reach(others), speed)

        if self.touching:

            def make_drag() -> Callable[[Array], Vectors]:
                reader = self.neighbour_reader((*x, *v))
                return lambda k: contact_drag(reader, k, k, 1.0)

            force = self._over_lists(make_drag, around, force)
        if self.touches_bonded:
            share = jnp.ones_like(self.slots.sign) if self.bonded_contacts or whole is None else 1 - whole
            slots = self.ends_of_slots, self.slots.partner, share
            force = _sum_slots(lambda slot: contact_drag(at_partner, *slot), slots, force)
        for distance, normal in self.faces(x):
            speed = sum(a * b for a, b in zip(normal, v, strict=True))
            force = add_scaled(force, jnp.where(distance < 0.5 * self.diameters, -c * speed, 0.0), normal)
        return Loads(force, moment)


def _sum_slots(one: Callable[[Any], Any], slots: Any, zero: Any) -> Any:
    """Sums `one` over the first axis of `slots` by a scan, so that passes are long loops over the particles that store
    little.
    """

    def add(total: Any, slot: Any) -> tuple[Any, None]:
        return jax.tree.map(jnp.add, total, one(slot)), None

    few = jax.tree.leaves(zero)[0].shape[0] < _MANY
    return jax.lax.scan(add, zero, slots, unroll=_UNROLL if few else 1)[0]
