"""One large system of particles on several devices: each holds a domain, with halo exchange for bonds."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, NamedSharding, PartitionSpec
from jaxtyping import Array, Int

from polhode import checks
from polhode.checks import short_repr
from polhode.particles.bonds import Constants, Slots
from polhode.particles.diagnostics import AbstractParticles
from polhode.particles.halo import AXIS, Halo, along_last, halo
from polhode.particles.neighbours import Neighbours, search
from polhode.particles.system import Particles
from polhode.spaces.checks import check_point
from polhode.spaces.component_arrays import Vectors, select
from polhode.systems.base import State
from polhode.systems.separable import Rest

_FIRST, _LAST, _NONE = PartitionSpec(AXIS), PartitionSpec(None, AXIS), PartitionSpec()

_OF_PARTICLES = ("masses", "inertias")
_OF_SLOTS = ("slots", "constants", "dampers")
_OF_BONDS = ("pairs", "per_bond", "limits")
# Contacts need the diameters of any neighbours; these never change.
_EVERYWHERE = (
    "diameters",
    "gravity",
    "contact",
    "wall_contact",
    "contact_damping",
    "walls",
    "release",
    "outlets",
    "groups",
    "skin",
    "law",
    "wall_law",
    "attraction",
    "lengths",
)


class ShardedParticles(AbstractParticles):
    """`Particles` on several devices, made by `sharded`; particles and bonds are in the order of domains.

    Outputs such as `positions` and `whole`, and what `start` takes, are in the order of the user; `original` brings
    states into it.

    - `place`, `bond_place`: where each particle and bond of the user is. - `mesh`: the devices.
    """

    is_whole: ClassVar = False

    ends: Halo
    slot_ends: Int[Array, "k n"]
    pair_ends: Int[Array, "2 m"]
    links: Halo
    slot_links: Int[Array, "k n"]
    place: Int[Array, " n"]
    bond_place: Int[Array, " m0"]
    mesh: Mesh = eqx.field(static=True)

    def __init__(self, **fields: Any) -> None:
        for name, value in fields.items():
            setattr(self, name, value)

    def original(self, state: State) -> Any:
        """A state, or saved states with further axes in front, in the order of particles and bonds of the user."""
        parts = [a[..., np.asarray(self.place), :] for a in state[:4]]
        whole = (a[..., np.asarray(self.bond_place)] for a in state[4:5])
        return self.state_type(*parts, *whole, *state[5:])

    @property
    def states(self) -> Any:
        # Runs build states from plain arrays and from results of steps; both are placed on devices here.
        sharding = NamedSharding(self.mesh, _FIRST)
        on_devices = lambda a: jax.lax.with_sharding_constraint(jnp.asarray(a), sharding)  # noqa: E731
        return lambda *parts: self.state_type(*map(on_devices, parts[:5]), *parts[5:])

    def to_storage_order(self, a: Array) -> Array:
        return jnp.zeros_like(a).at[self.place].set(a)

    @property
    def intact(self) -> Array:
        # Padding bonds of devices are never intact.
        return jnp.zeros(self.bonds, self.masses.dtype).at[self.bond_place].set(1)

    def of_particles(self, a: Array) -> Array:
        return a[self.place]

    def of_bonds(self, a: Array) -> Array:
        return a[self.bond_place]

    def user_number(self, which: int) -> int:
        return int(np.flatnonzero(np.asarray(self.place) == which)[0])

    def bond_reader(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        return self.ends.read(a)

    def neighbour_reader(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        # Gathered once here, not in every pass over the lists.
        gather = jax.shard_map(_gather, mesh=self.mesh, in_specs=_FIRST, out_specs=_NONE, check_vma=False)
        every = gather(a)
        return lambda which: select(every, which)

    def reach(self, others: Array) -> Array:
        # All devices hold all diameters. They must not be read in two ways: XLA would shard and gather them again.
        block = self.n // self.mesh.size

        def own(every: Array, others: Array) -> Array:
            mine = jax.lax.dynamic_slice_in_dim(every, jax.lax.axis_index(AXIS) * block, block)
            return 0.5 * (mine + every[others])

        spec = along_last(others)
        on_devices = jax.shard_map(own, mesh=self.mesh, in_specs=(_NONE, spec), out_specs=spec)
        return on_devices(self.diameters, others)

    @property
    def ends_of_slots(self) -> Array:
        return self.slot_ends

    @property
    def ends_of_bonds(self) -> tuple[Array, Array]:
        return self.pair_ends[0], self.pair_ends[1]

    def whole(self, rest: Rest) -> Array | None:
        return None if self.limits is None else self.links.read(rest[:1])(self.slot_links)[0]

    def search(
        self,
        x: Vectors,
        capacity: int,
        skin: Any = 0.0,
        whole: Array | None = None,
        active: Array | None = None,
    ) -> tuple[Neighbours, Array]:
        """Lists of the own particles on each device, from the positions of all, which are all active."""
        del active
        reach = 0.5 * (self.diameters + skin + self.attraction)
        partners = self.excluded_partners(whole, jnp.arange(self.n, dtype=jnp.int32))
        partners = self.slots.partner[:0] if partners is None else partners
        block = self.n // self.mesh.size

        def own(x: Vectors, reach: Array, partners: Array) -> tuple[Any, Any, Array, Array]:
            every = _gather(x)
            mine = jax.lax.axis_index(AXIS) * block + jnp.arange(block, dtype=jnp.int32)
            lists, code = search(
                every, reach, 2 * jnp.max(reach), partners if len(partners) else None, capacity, mine, self.period
            )
            worst = lambda a: jax.lax.pmax(a, AXIS)  # noqa: E731
            return lists.members, lists.at, worst(lists.longest), worst(code)

        specs = (_LAST, _FIRST, _NONE, _NONE)
        on_devices = jax.shard_map(
            own, mesh=self.mesh, in_specs=(_FIRST, _NONE, _LAST), out_specs=specs, check_vma=False
        )
        members, at, longest, code = on_devices(x, reach, partners)
        return Neighbours(members, at, longest), code


def sharded(system: Particles, state: State, devices: Sequence[Any] | None = None) -> tuple[ShardedParticles, Any]:
    """The same system and state spread over several devices, for runs as before:

    ```python
    system, state = particles.sharded(system, state)
    run = polhode.simulate(system, "rodrigues", state0=state, t1=1.0, h=1e-3)
    final = system.original(run.state)
    ```

    Space is cut across where it is longest until every device has a domain, all with the same number of particles. The
    system and its states are in the order of these domains; outputs and `system.original(states)` in that of the user.
    Particles stay on their device wherever they go; to cut again, shard the first system with a state that `original`
    returned. In a step devices send each other the ends of bonds that cross domains, and, while any particles that
    aren't bonded are close, the places of all.

    Results are those of one device to round-off.

    **Arguments:**

    - `system`, `state`: a start, or any state from which to go on.
    - `devices`: some of `jax.devices()`, all of one process; None for all.

    Raises ValueError if the number of devices doesn't divide that of particles, for wrong types and states, and inside
    transformations of JAX.
    """
    if not isinstance(system, Particles):
        raise ValueError(f"`system` must be a `Particles` that isn't sharded yet, got {type(system).__name__}.")
    if system.contact_outputs:
        raise ValueError("`contact_outputs` are for one device. Make the system without them.")
    if system.release is not None or system.outlets:
        raise ValueError("`release` and `outlets` are for one device. Make the system without them.")
    if system.groups is not None:
        raise ValueError("`groups` are for one device. Make the system without them.")
    used_devices = _devices(devices)
    if not checks.is_concrete(system, state):
        raise ValueError("Domains depend on where particles are; call `sharded` outside jit, grad and vmap.")
    n, count = system.n, len(used_devices)
    if n % count:
        divisor = max(k for k in range(1, count + 1) if n % k == 0)
        raise ValueError(
            f"{n} particles can't be spread evenly over {count} devices. Give `devices=jax.devices()[:{divisor}]`, or "
            f"add {-n % count} more, out of reach of all others and without bonds."
        )
    state = system.states(*check_point(system.state_space, state, "state"))
    mesh = Mesh(np.array(used_devices), (AXIS,))
    new = _Numbers(np.asarray(state[0]), np.asarray(system.pairs), count)
    new_system = _shard(system, new, mesh)
    parts = [np.asarray(a)[new.particles] for a in state[:4]]
    whole = [np.append(np.asarray(a), 0.0)[new.bonds] for a in state[4:5]]
    return new_system, new_system.states(*(jnp.asarray(a, system.masses.dtype) for a in (*parts, *whole, *state[5:])))


def _shard(system: Particles, new: _Numbers, mesh: Mesh) -> ShardedParticles:
    """The system in its new order, placed on the devices."""
    alike = lambda a: a.shape[-1] == 1 < system.n  # noqa: E731
    at_slots = lambda a: np.asarray(a) if alike(a) else np.asarray(a)[:, new.particles]  # noqa: E731
    slots = system.slots
    partner = new.place[at_slots(slots.partner)]
    # Slots without a bond read the padding bond of their device, which is never intact.
    spare_bond = (np.arange(system.n) * mesh.size // system.n + 1) * new.block - 1
    bond = np.where(at_slots(slots.sign) == 0, spare_bond, np.append(new.of_slots, 0)[at_slots(slots.bond)])
    ends, (slot_ends, pair_ends) = halo(mesh, system.n // mesh.size, partner, new.pairs.T)
    links, (slot_links,) = halo(mesh, new.block, bond)

    def reorder(a: Any, padding: float) -> np.ndarray:
        return np.append(np.asarray(a), np.asarray(padding, a.dtype))[new.bonds]

    per, limits = system.per_bond, system.limits
    without = Constants._make((0.0, 0.0, 0.0, 1.0, (0.0,) * 3))
    of_slots = {name: jax.tree.map(at_slots, getattr(system, name)) for name in _OF_SLOTS}
    fields = {
        **{f.name: getattr(system, f.name) for f in dataclasses.fields(Particles)},
        **{name: np.asarray(getattr(system, name))[new.particles] for name in (*_OF_PARTICLES, "diameters")},
        **of_slots,
        "slots": Slots(jnp.asarray(partner, jnp.int32), jnp.asarray(bond, jnp.int32), of_slots["slots"].sign),
        "pairs": new.pairs.astype(np.int32),
        "per_bond": jax.tree.map(reorder, per, without),
        "limits": None if limits is None else tuple(reorder(a, np.inf) for a in limits),
    }

    def put(spec: PartitionSpec) -> Callable[[Any], Any]:
        on = lambda a: NamedSharding(mesh, _NONE if spec is _LAST and alike(a) else spec)  # noqa: E731
        return lambda tree: jax.tree.map(lambda a: jax.device_put(a, on(a)), tree)

    for names, spec in ((_OF_PARTICLES, _FIRST), (_OF_SLOTS, _LAST), (_OF_BONDS, _FIRST), (_EVERYWHERE, _NONE)):
        fields |= {name: put(spec)(fields[name]) for name in names}
    return ShardedParticles(
        **fields,
        ends=put(_FIRST)(ends),
        slot_ends=put(_LAST)(slot_ends),
        pair_ends=put(_LAST)(pair_ends),
        links=put(_FIRST)(links),
        slot_links=put(_LAST)(slot_links),
        place=put(_NONE)(new.place),
        bond_place=put(_NONE)(new.of_slots),
        mesh=mesh,
    )


class _Numbers:
    """Positions of particles and bonds in the order of domains.

    - `particles`: those of the user in the new order; `place`: where each of them is.
    - `bonds`: those of the user in the new order, and their number for padding, so that all devices have `block` bonds,
      the last of them padding; `of_slots`: where each of them is; `pairs`: their ends.
    """

    def __init__(self, x: np.ndarray, pairs: np.ndarray, count: int) -> None:
        n, m = len(x), len(pairs)
        self.particles = np.concatenate(_domains(x, np.arange(n), count))
        self.place = np.argsort(self.particles)
        ends = self.place[pairs].reshape(-1, 2)
        home = ends[:, 0] * count // n
        order = np.argsort(home, kind="stable")
        counts = np.bincount(home, minlength=count)
        self.block = int(counts.max()) + 1 if m else 0
        self.of_slots = np.empty(m, int)
        self.of_slots[order] = home[order] * self.block + np.arange(m) - (np.cumsum(counts) - counts)[home[order]]
        self.bonds = np.full(count * self.block, m)
        self.bonds[self.of_slots] = np.arange(m)
        # Both ends of padding are the first particle of the device, so that it has no length and no energy.
        self.pairs = np.repeat(np.arange(count) * (n // count), self.block)[:, None].repeat(2, axis=1)
        self.pairs[self.of_slots] = ends


def _domains(x: np.ndarray, which: np.ndarray, count: int) -> list[np.ndarray]:
    """`which` of the positions in `count` domains of equal number, by recursive bisection along the largest extent."""
    if count == 1:
        return [np.sort(which)]
    half = count // 2
    along = int(np.argmax(np.ptp(x[which], axis=0)))
    in_order = which[np.argsort(x[which, along], kind="stable")]
    cut = len(which) // count * half
    return _domains(x, in_order[:cut], half) + _domains(x, in_order[cut:], count - half)


def _gather(a: tuple[Array, ...]) -> tuple[Array, ...]:
    """The whole arrays on every device."""
    return tuple(jax.lax.all_gather(jnp.stack(a), AXIS, axis=1, tiled=True))


def _devices(devices: Any) -> list[Any]:
    if devices is None:
        return jax.devices()
    chosen_devices = list(devices) if isinstance(devices, list | tuple | np.ndarray) else [devices]
    if not chosen_devices or not all(isinstance(d, jax.Device) for d in chosen_devices):
        raise ValueError(f"`devices` must be at least one of `jax.devices()`, got {short_repr(devices)}.")
    if len(set(chosen_devices)) < len(chosen_devices):
        raise ValueError(f"`devices` names a device more than once: {short_repr(devices)}.")
    return chosen_devices
