"""The mass matrix of a tree by composite bodies, from the leaves to the ground."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.linalg.known_places import add_entries, take, take_columns
from polhode.multibody.coordinates.tree.links import Inertia, Link, Loads
from polhode.multibody.mechanism.poses import Pose
from polhode.spaces.base import Point


class Shares(NamedTuple):
    """The velocities of one joint: sums of independent velocities times ratios.

    - `places`: the velocity of the joint for each summand. - `numbers`: the independent one.
    - `ratios`: their factors; None for 1.
    """

    places: np.ndarray
    numbers: np.ndarray
    ratios: Array | None = None

    def sum_columns(self, values: Float[Array, "k own"]) -> Float[Array, "k summands"]:
        """Values along the independent velocities, from those along the velocities of the joint."""
        columns = take_columns(values, self.places)
        return columns if self.ratios is None else columns * self.ratios


class _Columns(NamedTuple):
    """Loads on one link of unit accelerations of independent velocities, whose `numbers` ascend."""

    numbers: np.ndarray
    loads: Loads

    @classmethod
    def merge(cls, parts: Sequence[_Columns]) -> _Columns:
        """Loads of the same velocity add up, as those of fingers that one motor moves."""
        if len(parts) == 1:
            return parts[0]
        repeated = np.concatenate([part.numbers for part in parts])
        torques, forces = (jnp.concatenate(rows) for rows in zip(*(part.loads for part in parts), strict=True))
        numbers, place = np.unique(repeated, return_inverse=True)
        if numbers.size == repeated.size:
            order = np.argsort(place)
            return cls(numbers, Loads(take(torques, order), take(forces, order)))
        none = jnp.zeros((numbers.size, 3))
        return cls(numbers, Loads(add_entries(none, torques, place), add_entries(none, forces, place)))


def mass_matrix(
    links: Sequence[Link], points: Sequence[Point], relative: Sequence[Pose], shares: Sequence[Shares], n: int
) -> Float[Array, "n n"]:
    """M along n independent velocities: power of the loads of unit accelerations in unit velocities."""
    composites = [link.inertia for link in links]
    arrived: list[list[_Columns]] = [[] for _ in links]
    entries: list[tuple[np.ndarray, np.ndarray, Array]] = []
    for i in reversed(range(len(links))):
        link, point, frame, share = links[i], points[i], relative[i], shares[i]
        work = lambda loads: share.sum_columns(link.work(point, frame.R, loads))  # noqa: B023, E731
        outer = _Columns.merge(arrived[i]) if arrived[i] else None
        if share.numbers.size:
            if outer is not None:
                values = work(outer.loads)
                entries += [(share.numbers, outer.numbers, values.T), (outer.numbers, share.numbers, values)]
            unit = link.unit_loads(point, frame.R, composites[i])
            own = _Columns(share.numbers, Loads(*(share.sum_columns(rows.T).T for rows in unit)))
            entries.append((share.numbers, share.numbers, work(own.loads)))
            outer = _Columns.merge([own] if outer is None else [outer, own])
        if link.parent >= 0:
            composites[link.parent] = composites[link.parent].plus(composites[i].transform(frame))
            if outer is not None:
                arrived[link.parent].append(_Columns(outer.numbers, outer.loads.transform(frame)))
    places = [np.broadcast_arrays(rows[:, None], columns[None]) for rows, columns, _ in entries]
    rows, columns = (np.concatenate([x[k].reshape(-1) for x in places]) for k in (0, 1))
    values = jnp.concatenate([values.reshape(-1) for _, _, values in entries])
    return add_entries(jnp.zeros((n, n)), values, rows, columns)


def lump(links: Sequence[Link]) -> list[Link]:
    """Links with the same motions, where what lies on the axis of a hinge belongs to the link that carries it.

    There it moves the same way. Numbers that are zero then cost nothing in recursions (M. Gautier & W. Khalil,
    *Direct calculation of minimum set of inertial parameters of serial robots*, 1990).
    """
    frames = [link.motion.frame_with_axis for link in links]
    inertias = _lump_inertias([link.inertia for link in links], frames, tuple(link.parent for link in links))
    return [dataclasses.replace(link, inertia=inertia) for link, inertia in zip(links, inertias, strict=True)]


@partial(jax.jit, static_argnums=2)
def _lump_inertias(
    inertias: list[Inertia], frames_with_axes: Sequence[Pose | None], parents: tuple[int, ...]
) -> list[Inertia]:
    for i in reversed(range(len(inertias))):
        frame, parent = frames_with_axes[i], parents[i]
        if frame is not None:
            if parent >= 0:
                inertias[parent] = inertias[parent].plus(inertias[i].on_axis().transform(frame))
            inertias[i] = inertias[i].off_axis()
    return inertias
