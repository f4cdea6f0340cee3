"""Motions for ParaView: a .pvd file that lists the times, and beside it a folder with one .vtu file for each."""

from __future__ import annotations

import base64
import struct
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple
from xml.sax.saxutils import quoteattr

import numpy as np

from polhode.replacement import replacement
from polhode.viewing.film.frame_renderer import rotation
from polhode.viewing.scene import geometry
from polhode.viewing.scene.sampled_motion import Motion, sample
from polhode.viewing.scene.scene import Arrows, Body, Cloud, Line, Scene

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_FRAMES = 600
_INDEX = (
    '<VTKFile type="Collection" version="1.0" byte_order="LittleEndian"><Collection>\n{}\n</Collection></VTKFile>\n'
)
_VERTEX, _SEGMENT, _TRIANGLE = 1, 3, 5
_TYPES = {"f": "Float64", "i": "Int64", "u": "UInt8"}


class Cells(NamedTuple):
    """Cells of one kind with what is known of them.

    - `points`: (n, 3). - `cells`: (m, nodes of a cell). - `kind`: VTK's number of it.
    - `of_cells`, `of_points`: name → (m,) or (m, 3), and (n,) or (n, 3).
    """

    points: np.ndarray
    cells: np.ndarray
    kind: int
    of_cells: Mapping[str, np.ndarray]
    of_points: Mapping[str, np.ndarray]


def write(solution: Run, scene: Scene, path: Path) -> None:
    """Writes bodies as triangles, rods as segments with strains and forces, spheres and arrows as points with data."""
    # ParaView is for data; symbols would be cells without any.
    scene = scene.without_symbols()
    motion = sample(scene, solution, _FRAMES)
    surfaces = [geometry.join([surface for surface, _ in geometry.of_body(body, scene)]) for body in scene.of(Body)]
    folder = path.with_suffix("")
    with replacement(path) as index, tempfile.TemporaryDirectory(prefix=".polhode-", dir=path.parent) as aside:
        entries = []
        for k, t in enumerate(motion.t):
            name = f"{k:05d}.vtu"
            Path(aside, name).write_text(_file(_parts(scene, motion, surfaces, k), float(t)), encoding="utf-8")
            place = quoteattr(f"{folder.name}/{name}")
            entries.append(f'<DataSet timestep="{float(t)!r}" part="0" file={place}/>')
        index.write_text(_INDEX.format("\n".join(entries)), encoding="utf-8")
        # All files are written; only renames follow, which a full disk doesn't prevent.
        folder.mkdir(exist_ok=True)
        for part in sorted(Path(aside).iterdir()):
            part.replace(folder / part.name)


def _parts(scene: Scene, motion: Motion, surfaces: list[geometry.Surface], k: int) -> list[Cells]:
    """All cells of one frame; `part` numbers the parts of the scene."""
    parts: list[Cells] = []

    def add(points: np.ndarray, cells: np.ndarray, kind: int, of_cells: dict, of_points: dict) -> None:
        numbers = {"part": np.full(len(cells), len(parts))}
        parts.append(Cells(points, cells, kind, {**numbers, **of_cells}, of_points))

    for surface, x, q in zip(surfaces, motion.positions, motion.quaternions, strict=True):
        mesh = surface.moved_by(x[k], rotation(q[k]))
        add(mesh.vertices, mesh.faces, _TRIANGLE, {}, {})
    for line, points, tints in zip(scene.of(Line), motion.lines, motion.tints, strict=True):
        names = line.tints.names if line.tints else ()
        values = {name: tints[k][:, i] for i, name in enumerate(names)} if tints is not None else {}
        n = np.arange(points.shape[1] - 1)
        add(points[k], np.stack([n, n + 1], axis=1), _SEGMENT, values, {})
    for cloud, places, stride in zip(scene.of(Cloud), motion.clouds, motion.strides, strict=True):
        sizes = {"diameter": np.asarray(cloud.diameters, float)[::stride]}
        add(places[k], np.arange(places.shape[1])[:, None], _VERTEX, {}, sizes)
    for arrows, (feet, vectors) in zip(scene.of(Arrows), motion.arrows, strict=True):
        add(feet[k], np.arange(feet.shape[1])[:, None], _VERTEX, {}, {arrows.name: vectors[k]})
    return parts


def _file(parts: list[Cells], t: float) -> str:
    starts = np.cumsum([0, *(len(part.points) for part in parts[:-1])])
    points = np.concatenate([part.points for part in parts])
    nodes = np.concatenate([(part.cells + start).ravel() for part, start in zip(parts, starts, strict=True)])
    ends = np.cumsum(np.concatenate([np.full(len(part.cells), part.cells.shape[1]) for part in parts]))
    kinds = np.concatenate([np.full(len(part.cells), part.kind, dtype=np.uint8) for part in parts])
    cell_data = _together([part.of_cells for part in parts], [len(part.cells) for part in parts])
    point_data = _together([part.of_points for part in parts], [len(part.points) for part in parts])
    return (
        '<VTKFile type="UnstructuredGrid" version="1.0" byte_order="LittleEndian" header_type="UInt64">'
        f"<UnstructuredGrid><FieldData>{_array('TimeValue', np.array([t]), tuples=1)}</FieldData>"
        f'<Piece NumberOfPoints="{len(points)}" NumberOfCells="{len(kinds)}">'
        f"<PointData>{''.join(_array(name, values) for name, values in point_data.items())}</PointData>"
        f"<CellData>{''.join(_array(name, values) for name, values in cell_data.items())}</CellData>"
        f"<Points>{_array('Points', points)}</Points>"
        f"<Cells>{_array('connectivity', nodes)}{_array('offsets', ends)}{_array('types', kinds)}</Cells>"
        "</Piece></UnstructuredGrid></VTKFile>\n"
    )


def _together(data: list[Mapping[str, np.ndarray]], counts: list[int]) -> dict[str, np.ndarray]:
    """Arrays by name over all parts, NaN where a part has nothing of that name."""
    shapes = {name: values.shape[1:] for each in data for name, values in each.items()}
    return {
        name: np.concatenate(
            [each.get(name, np.full((count, *shape), np.nan)) for each, count in zip(data, counts, strict=True)]
        )
        for name, shape in shapes.items()
    }


def _array(name: str, values: np.ndarray, tuples: int | None = None) -> str:
    """An array as base64 text with its length before it."""
    kind = values.dtype.kind
    data = np.ascontiguousarray(values, dtype={"f": "<f8", "i": "<i8", "u": "u1"}[kind]).tobytes()
    text = base64.b64encode(struct.pack("<Q", len(data)) + data).decode()
    wide = f' NumberOfComponents="{values.shape[1]}"' if values.ndim == 2 else ""
    more = "" if tuples is None else f' NumberOfTuples="{tuples}"'
    return f'<DataArray type="{_TYPES[kind]}" Name={quoteattr(name)}{wide}{more} format="binary">{text}</DataArray>'
