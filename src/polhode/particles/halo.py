"""Halo exchange between devices: data of particles near the borders of domains."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.sharding import Mesh, PartitionSpec
from jaxtyping import Array, Int

from polhode.spaces.component_arrays import select

AXIS = "particles"
"""Name of the axis of the mesh."""

_FIRST = PartitionSpec(AXIS)


class Halo(eqx.Module):
    """Exchange of items between devices, which hold blocks of the same size.

    - `routes`: rounds of exchange, each with pairs (sender, receiver) of devices.
    - `sends`: for each round the indices in the own block of the items sent, shape (devices · s,).
    """

    routes: tuple[tuple[tuple[int, int], ...], ...] = eqx.field(static=True)
    sends: tuple[Int[Array, " s"], ...]
    mesh: Mesh = eqx.field(static=True)

    def read(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        """Exchanges `a` once; returns a function that reads it by numbers from `halo`."""
        if self.routes:

            def exchange(a: tuple[Array, ...], sends: tuple[Array, ...]) -> tuple[Array, ...]:
                parts = [jnp.stack(a)]
                for send, route in zip(sends, self.routes, strict=True):
                    parts.append(jax.lax.ppermute(jnp.stack(select(a, send)), AXIS, route))
                return tuple(jnp.concatenate(parts, axis=1))

            a = jax.shard_map(exchange, mesh=self.mesh, in_specs=_FIRST, out_specs=_FIRST)(a, self.sends)

        def read(numbers: Array) -> tuple[Array, ...]:
            spec = along_last(numbers)
            return jax.shard_map(select, mesh=self.mesh, in_specs=(_FIRST, spec), out_specs=spec)(a, numbers)

        return read


def halo(mesh: Mesh, size: int, *tables: np.ndarray) -> tuple[Halo, list[np.ndarray]]:
    """The halo exchange for devices with `size` items each that read the numbers in `tables`, shape (k, devices · …).

    The last axis of a table is sharded over the devices. Also returns the tables with numbers for `Halo.read`.
    """
    count = mesh.size
    readers = [np.broadcast_to(np.arange(t.shape[1]) * count // max(t.shape[1], 1), t.shape) for t in tables]
    shifts = [(reader - t // max(size, 1)) % count for reader, t in zip(readers, tables, strict=True)]
    new_tables, sends, routes, base = [t % max(size, 1) for t in tables], [], [], size
    for shift in range(1, count):
        items = np.unique(np.concatenate([t[s == shift] for t, s in zip(tables, shifts, strict=True)]))
        if not len(items):
            continue
        owner, counts = items // size, np.bincount(items // size, minlength=count)
        rank = np.arange(len(items)) - (np.cumsum(counts) - counts)[owner]
        send = np.zeros((count, counts.max()), np.int32)
        send[owner, rank] = items % size
        for table, s, new in zip(tables, shifts, new_tables, strict=True):
            new[s == shift] = base + rank[np.searchsorted(items, table[s == shift])]
        sends.append(send.reshape(-1))
        routes.append(tuple((int(k), int((k + shift) % count)) for k in np.flatnonzero(counts)))
        base += counts.max()
    return Halo(tuple(routes), tuple(sends), mesh), [t.astype(np.int32) for t in new_tables]


def along_last(a: Array) -> PartitionSpec:
    """Partition that shards the last axis."""
    return PartitionSpec(*(None,) * (a.ndim - 1), AXIS)
