"""Exchange of what particles at the borders of domains read of each other, between devices."""

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
    """Exchange between devices of items that they hold in blocks of the same size.

    - `routes`: rounds of sending, each of pairs of a device that sends and one that receives.
    - `sends`: for each round the places in the own block of what is sent, shape (devices · s,).
    """

    routes: tuple[tuple[tuple[int, int], ...], ...] = eqx.field(static=True)
    sends: tuple[Int[Array, " s"], ...]
    mesh: Mesh = eqx.field(static=True)

    def read(self, a: tuple[Array, ...]) -> Callable[[Array], tuple[Array, ...]]:
        """Sends once; what is returned reads `a` by numbers from `halo`."""
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
    """How devices that hold `size` items each read those with the numbers in `tables`, shape (k, devices · …).

    The last axis of a table is spread over the devices. Each table comes back with numbers for `Halo.read`.
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
    """Spreads the last axis."""
    return PartitionSpec(*(None,) * (a.ndim - 1), AXIS)
