"""Scenes: drawable parts as plain data with pose functions, independent of any renderer."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Container, Mapping
from typing import Any, Literal, TypeVar

from jaxtyping import Array

from polhode.systems.base import State

Pose = Callable[[Array, State], tuple[Array, Array]]
"""(t, state) → position (3,) of the part's centre and its rotation (3, 3), part to inertial frame."""

Kind = TypeVar("Kind")

Points = Callable[[Array, State], Array]
"""(t, state) → points (n, 3) in the inertial frame; n is the same at all times."""


@dataclasses.dataclass(frozen=True)
class Body:
    """A rigid part.

    - `shape`: "box", "ellipsoid", "cylinder", "cone" (tip up) or "capsule" (axis along the part's third direction),
      "mesh", or "frame" (three axes from its place).
    - `size`: full extents along the part's own three directions, in the problem's units of length.
    - `pose`: where it is; parts of one body share it.
    - `at`, `turn`: place (3,) and directions (3, 3) in the frame that `pose` moves.
    - `mesh`: name of the mesh among those of the scene.
    - `marked`: whether tones of its colour show its rotation, and the legend names it.
    - `framed`: whether the field of view contains it.
    - `symbol`: whether it is a symbol of a joint or the ground, which views may hide.
    """

    name: str
    shape: Literal["box", "ellipsoid", "cylinder", "cone", "capsule", "mesh", "frame"]
    size: Any
    pose: Pose
    colour: str = "#4477aa"
    at: Any = (0.0, 0.0, 0.0)
    turn: Any = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0))
    mesh: str | None = None
    marked: bool = True
    framed: bool = True
    symbol: bool = False


@dataclasses.dataclass(frozen=True)
class Cloud:
    """Many spheres, drawn without their rotation.

    - `centres`: of all of them. - `diameters`: shape (n,), in the problem's units of length.
    """

    name: str
    centres: Points
    diameters: Any
    colour: str = "#4477aa"


@dataclasses.dataclass(frozen=True)
class Tints:
    """Quantities by which the segments of a line can be coloured.

    - `names`: k of them. - `kinds`: "strain", "curvature", "force" or "moment", which determine units.
    - `values`: (t, state) → (segments, k).
    """

    names: tuple[str, ...]
    kinds: tuple[str, ...]
    values: Points


@dataclasses.dataclass(frozen=True)
class Line:
    """A polyline through moving points, such as a massless rod or the axis of a beam, drawn as a tube.

    - `radius`: of the tube; None for a thin one. - `tints`: quantities that can colour it, or None.
    - `coil`: whether it is a spring between two points, which pages and films draw as a helix.
    """

    name: str
    points: Points
    colour: str = "#555555"
    radius: float | None = None
    tints: Tints | None = None
    coil: bool = False


@dataclasses.dataclass(frozen=True)
class Arrows:
    """Vectors that move with parts of a scene, such as forces or momenta.

    - `kind`: "force", "moment", "momentum", "angular momentum" or "velocity"; the longest of a kind has a fixed length.
    - `needs`: outputs from which they are computed; without these they are not drawn.
    - `feet`: where they begin, (n, 3). - `vectors`: (n, 3), in the inertial frame.
    """

    name: str
    kind: str
    feet: Points
    vectors: Points
    colour: str = "#d1495b"
    needs: tuple[str, ...] = ()


@dataclasses.dataclass(frozen=True)
class Trail:
    """The curve that an output of shape (3,) has drawn so far; `index` picks a row of an output (n, 3)."""

    output: str
    index: int | None = None
    colour: str = "#cc6677"


@dataclasses.dataclass(frozen=True)
class Scene:
    """The drawable parts of a problem.

    - `parts`: bodies, lines, trails, clouds and arrows.
    - `up`: the inertial direction shown upwards.
    - `reads`: the second argument of functions of parts, "state" or "outputs" (a dict of arrays).
    - `description`: plain values to store with a run, from which the scene can be drawn again, or None.
    - `meshes`: by name, as `Triangles.pack` gives them.
    - `floor`: its height along `up`; None for that of the lowest place of the motion.
    """

    parts: tuple[Body | Line | Trail | Cloud | Arrows, ...]
    up: tuple[float, float, float] = (0.0, 0.0, 1.0)
    reads: Literal["state", "outputs"] = "state"
    description: Mapping[str, Any] | None = None
    meshes: Mapping[str, Mapping[str, str]] = dataclasses.field(default_factory=dict)
    floor: float | None = None

    def of(self, kind: type[Kind]) -> list[Kind]:
        """Its parts of one kind, in their order."""
        return [part for part in self.parts if isinstance(part, kind)]

    def without_symbols(self) -> Scene:
        """The scene without symbols of joints and the ground."""
        parts = [part for part in self.parts if not isinstance(part, Body) or not part.symbol]
        return dataclasses.replace(self, parts=tuple(parts))

    def readable(self, outputs: Container[str]) -> Scene:
        """The scene without arrows that need outputs which a run does not have."""
        parts = [p for p in self.parts if not isinstance(p, Arrows) or all(name in outputs for name in p.needs)]
        return dataclasses.replace(self, parts=tuple(parts))


Part = Body | Line | Trail | Cloud | Arrows

_FUNCTIONS = ("pose", "points", "centres", "feet", "vectors")


def with_functions(part: Part, through: Callable[[Callable[..., Any]], Callable[..., Any]]) -> Part:
    """The part with each of its functions of (t, state) replaced by `through` of it."""
    changes: dict[str, Any] = {name: through(getattr(part, name)) for name in _FUNCTIONS if hasattr(part, name)}
    tints = getattr(part, "tints", None)
    if tints is not None:
        changes["tints"] = dataclasses.replace(tints, values=through(tints.values))
    return dataclasses.replace(part, **changes)
