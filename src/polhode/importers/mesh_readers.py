"""Readers of mesh files: binary STL and plain COLLADA directly, everything else by trimesh.

Importing trimesh takes longer than reading the meshes of most robots.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator
from typing import Any

import numpy as np

from polhode.viewing.scene.mesh import ColouredTriangles, Triangles

_UNIT = re.compile(rb"<unit\b[^>]*\bmeter\s*=\s*[\"']([^\"']+)[\"']")
_FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
_HEADER = 84
"""Bytes of a binary STL before its facets; the last four are the number of facets."""


def read_triangles(content: bytes, file_format: str, beside: Any) -> Iterator[ColouredTriangles]:
    """Triangles of a file, in the units of its axes; of COLLADA in metres.

    - `file_format`: the suffix of its name. - `beside`: finds what the file refers to, for trimesh.

    Raises ImportError if the reader of the format is missing, and any exception of readers for files they can't read.
    """
    if file_format == "stl" and _is_binary(content):
        return iter([_binary(content)])
    factor = _unit(content) if file_format == "dae" else 1.0
    parts = _collada(content) if file_format == "dae" else None
    return (
        ColouredTriangles(part.triangles.scale(np.full(3, factor)), part.colour)
        for part in (_by_trimesh(content, file_format, beside) if parts is None else parts)
    )


def _is_binary(content: bytes) -> bool:
    count = int.from_bytes(content[_HEADER - 4 : _HEADER], "little")
    return len(content) == _HEADER + count * _FACET.itemsize


def _binary(content: bytes) -> ColouredTriangles:
    corners = np.frombuffer(content, _FACET, offset=_HEADER)["corners"].astype(float)
    return ColouredTriangles(_separate_triangles(corners), None)


def _separate_triangles(corners: np.ndarray) -> Triangles:
    """Triangles without shared vertices from corners (n, 3, 3)."""
    return Triangles(corners.reshape(-1, 3), np.arange(3 * len(corners)).reshape(-1, 3))


def _unit(content: bytes) -> float:
    unit = _UNIT.search(content[:100_000])
    return float(unit[1]) if unit else 1.0


def _collada(content: bytes) -> list[ColouredTriangles] | None:
    """The triangles of its scene; None if vertices have colours."""
    import collada
    from collada.polylist import Polylist
    from collada.triangleset import TriangleSet

    document = collada.Collada(io.BytesIO(content), ignore=[collada.DaeError])
    parts: list[ColouredTriangles] = []
    for matrix, node in _geometry_nodes(document.scene.nodes if document.scene else (), np.eye(4)):
        colours = {each.symbol: _diffuse(each.target.effect) for each in node.materials}
        for primitive in node.geometry.primitives:
            if isinstance(primitive, Polylist):
                primitive = primitive.triangleset()
            if not isinstance(primitive, TriangleSet) or primitive.vertex is None:
                continue
            if primitive.sources.get("COLOR"):
                return None
            corners = primitive.vertex[primitive.vertex_index] @ matrix[:3, :3].T + matrix[:3, 3]
            parts.append(ColouredTriangles(_separate_triangles(corners), colours.get(primitive.material)))
    return parts


def _geometry_nodes(nodes: Any, matrix: np.ndarray) -> Iterator[tuple[np.ndarray, Any]]:
    """Nodes with a geometry, each with the transformation from its frame to that of the file."""
    import collada

    for node in nodes:
        if isinstance(node, collada.scene.GeometryNode):
            yield matrix, node
        elif isinstance(node, collada.scene.Node):
            yield from _geometry_nodes(node.children or (), matrix @ node.matrix)


def _diffuse(effect: Any) -> str:
    """The colour of a material; white for images, which are not read."""
    value = effect.diffuse if isinstance(effect.diffuse, tuple) else (1.0, 1.0, 1.0)
    return _hex_colour(np.rint(255 * np.clip(np.nan_to_num(value, posinf=0.0, neginf=0.0), 0, 1)))


def _by_trimesh(content: bytes, file_format: str, beside: Any) -> Iterator[ColouredTriangles]:
    import trimesh

    scene: Any = trimesh.load_scene(io.BytesIO(content), file_type=file_format, resolver=beside, process=False)
    for node in scene.graph.nodes_geometry:
        matrix, name = scene.graph[node]
        mesh = scene.geometry[name]
        faces = np.asarray(getattr(mesh, "faces", ())).reshape(-1, 3)
        if len(faces):
            places = np.asarray(mesh.vertices) @ matrix[:3, :3].T + matrix[:3, 3]
            yield ColouredTriangles(Triangles(places, faces), _colour(mesh))


def _colour(mesh: Any) -> str | None:
    """The main colour of a mesh; None if the file has none."""
    visual = getattr(mesh, "visual", None)
    if visual is None or not visual.defined:
        return None
    try:
        return _hex_colour(visual.material.main_color if visual.kind == "texture" else visual.main_color)
    except (AttributeError, ValueError):
        return None


def _hex_colour(colour: Any) -> str:
    return "#" + "".join(f"{int(c):02x}" for c in np.asarray(colour)[:3])
