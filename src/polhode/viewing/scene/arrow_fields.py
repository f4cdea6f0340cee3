"""Arrows over the motion of a run: those of its scene, and forces of joints, of contacts and by name, if available."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polhode.checks import nearest, short_repr
from polhode.viewing.charts import load_arrows
from polhode.viewing.scene.sampled_motion import Motion
from polhode.viewing.scene.scene import Arrows, Scene
from polhode.viewing.style import COLOURS

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_LONGEST = 0.45
"""Length of the longest arrow of a kind, relative to the radius of the motion."""


class Vectors(NamedTuple):
    """Arrows of one name. - `feet`, `vectors`: (k, n, 3). - `kind`: of quantity; arrows of one kind share a scale."""

    name: str
    kind: str
    colour: str
    feet: np.ndarray
    vectors: np.ndarray

    @property
    def longest(self) -> float:
        """The largest magnitude over the run."""
        return float(np.max(np.linalg.norm(self.vectors, axis=-1), initial=0.0))


def of_run(scene: Scene, motion: Motion, solution: Run) -> Iterator[Vectors]:
    """All arrows of a run."""
    for each, (feet, vectors) in zip(scene.of(Arrows), motion.arrows, strict=True):
        yield Vectors(each.name, each.kind, each.colour, feet, vectors)
    for name, colour, field in (
        ("joint force", COLOURS[3], load_arrows.of_joints(solution, motion.rows)),
        ("applied force", COLOURS[5], load_arrows.of_forces(solution, motion.rows)),
        ("contact force", COLOURS[7], load_arrows.of_contacts(solution, motion.rows)),
        ("friction cone", COLOURS[6], load_arrows.of_cones(solution, motion.rows)),
    ):
        if field is not None:
            yield Vectors(name, "force", colour, *field)


def scale(fields: Sequence[Vectors], names: Sequence[str], radius: float) -> list[Vectors]:
    """The arrows of some names, scaled to their length in a picture of a motion with some radius.

    Raises ValueError for names that the run doesn't have.
    """
    available = [each.name for each in fields]
    for name in names:
        if name not in available:
            raise ValueError(
                f"The run has no arrows {short_repr(name)}.{nearest(name, available)} It has "
                f"{', '.join(available) or 'none'}."
            )
    longest = {kind: max(each.longest for each in fields if each.kind == kind) for kind in {e.kind for e in fields}}
    return [
        each._replace(vectors=_LONGEST * radius / (longest[each.kind] or 1.0) * each.vectors)
        for each in fields
        if each.name in names
    ]
