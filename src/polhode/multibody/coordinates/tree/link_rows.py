"""Links of a tree in arrays, a row for each: as many arrays as there are kinds of joints."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array, Float

from polhode.modules import Module
from polhode.multibody.coordinates.tree.links import Inertia, Link
from polhode.multibody.coordinates.tree.motions import AbstractRelativeMotion
from polhode.multibody.coordinates.tree.row_order import row_order
from polhode.multibody.mechanism.batches import structural_groups
from polhode.multibody.mechanism.groups import stack_trees

LOOPED_LINKS = 120
"""Links above which recursions are loops over them: unrolled, each adds some 300 operations to an acceleration. A step
of a dog of 61 links in generalized-α takes 709 µs in quick code with loops and 411 without."""

LOOPED_OPERATIONS = 440
"""Operations of M and its elimination for each velocity, above which they are, too, for each value that waits for
another branch: from chains of 22 links on. One of 20 takes 23 µs a step in `rkmk4` without loops and 16 with them, and
is ready after 5.2 and 1.1 s. Loops select among all values that wait: a tree of 30 links with five limbs takes 41 µs in
quick code without loops, 109 with them; it has 320, Talos 429."""


WORTH_LOOPS = 20
"""Links from which on what is evaluated once for each frame has loops, whatever the shape of the tree. Loads of joints
of 13 links are compiled in 1.0 s of processor time with loops and 0.9 without, of 24 in 1.05 and 2.2, of 61 in 3.1 and
8.8; a frame takes 2 to 20 times as long, 57, 68 and 450 µs."""


class LinkRows(Module):
    """The numbers of links.

    - `motions`: of their joints, those of equal kind stacked. - `members`: the numbers of their links.
    - `inertia`, `centre`, `attitude`: a row for each link.
    """

    motions: tuple[AbstractRelativeMotion, ...]
    inertia: Inertia
    centre: Float[Array, "links 3"]
    attitude: Float[Array, "links 3 3"]
    members: tuple[tuple[int, ...], ...] = eqx.field(static=True)

    @classmethod
    def of(cls, links: Sequence[Link]) -> LinkRows:
        members = structural_groups([link.motion for link in links])
        motions = [_stack([links[k].motion for k in numbers]) for numbers in members]
        bodies = stack_trees([(link.inertia, link.centre, link.attitude) for link in links])
        inertia, centre, attitude = bodies
        return cls(tuple(motions), inertia, centre, attitude, tuple(map(tuple, members)))

    def fill(self, labels: Sequence[Link]) -> tuple[Link, ...]:
        """Links with their numbers, from their labels."""
        motions = {
            number: _row(stacked, k)
            for stacked, numbers in zip(self.motions, self.members, strict=True)
            for k, number in enumerate(numbers)
        }
        bodies = self.inertia, self.centre, self.attitude
        rows = [_row(bodies, k) for k in range(len(labels))]
        return tuple(
            dataclasses.replace(link, motion=motions[k], inertia=inertia, centre=centre, attitude=attitude)
            for k, (link, (inertia, centre, attitude)) in enumerate(zip(labels, rows, strict=True))
        )


def _row(stacked: Any, k: int) -> Any:
    # `x[k]` takes twice as long to trace.
    return jax.tree.map(lambda x: jax.lax.index_in_dim(x, k, keepdims=False), stacked)


def label(link: Link) -> Link:
    """A link without its numbers: names, places, and the kind of its joint."""
    return eqx.filter(link, eqx.is_array, inverse=True)


def suit_loops(links: Sequence[Link]) -> bool:
    """Whether loops over links are faster than recursions without."""
    if len(links) > LOOPED_LINKS:
        return True
    depths = np.concatenate([np.full(link.motion.n, k.size) for link, k in zip(links, carriers(links), strict=True)])
    order = row_order(tuple(link.parent for link in links), tuple(link.motion.n for link in links))
    return float(np.mean(depths**2 + 24 * depths)) > LOOPED_OPERATIONS * order.registers.count


def carriers(links: Sequence[Link]) -> list[np.ndarray]:
    """For each link the velocities of the joints that carry it, its own included."""
    carrying: list[np.ndarray] = []
    for link in links:
        below = carrying[link.parent] if link.parent >= 0 else np.zeros(0, int)
        carrying.append(np.concatenate((below, np.arange(link.first, link.last))))
    return carrying


def _stack(motions: Sequence[AbstractRelativeMotion]) -> AbstractRelativeMotion:
    """Motions of equal kind as one, with a leading axis."""
    arrays, others = zip(*(eqx.partition(motion, eqx.is_array) for motion in motions), strict=True)
    return eqx.combine(stack_trees(arrays), others[0])
