"""Motions as binary glTF 2.0 files, which Blender, three.js and viewers of operating systems play."""

from __future__ import annotations

import json
import struct
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode.viewing.film.frame_renderer import rgb
from polhode.viewing.scene import geometry, rotation_keys
from polhode.viewing.scene.sampled_motion import Motion, sample
from polhode.viewing.scene.scene import Body, Cloud, Line, Scene

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_FRAMES = 600
_MOST_SPHERES = 2000
_FLOAT, _UNSIGNED = 5126, 5125
_VERTICES, _INDICES = 34962, 34963


def write(solution: Run, scene: Scene, path: Path) -> None:
    """Writes bodies, tubes and spheres with their motion; time in seconds is the run's unit of time.

    Raises ValueError for too many spheres, each of which is a node.
    """
    spheres = sum(len(cloud.diameters) for cloud in scene.of(Cloud))
    if spheres > _MOST_SPHERES:
        raise ValueError(
            f"glTF moves each of {spheres} spheres as an object of its own, which programs take up to {_MOST_SPHERES} "
            "of. Write .pvd for ParaView, .html or .mp4 instead."
        )
    motion = sample(scene, solution, _FRAMES)
    builder = _Builder(motion.t - motion.t[0])
    _bodies(builder, scene, motion, solution)
    for line, points in zip(scene.of(Line), motion.lines, strict=True):
        _tube(builder, line, points, motion.bounds(scene)[1])
    for cloud, places in zip(scene.of(Cloud), motion.clouds, strict=True):
        for i, diameter in enumerate(np.asarray(cloud.diameters, float)):
            ball = builder.mesh(geometry.ball(), cloud.colour, "ball")
            builder.moving_node(f"{cloud.name} {i}", ball, x=places[:, i], scale=np.full(3, diameter))
    path.write_bytes(builder.binary(str(solution.meta.get("problem") or "system"), scene))


def _bodies(builder: _Builder, scene: Scene, motion: Motion, solution: Run) -> None:
    for body, x, q in zip(scene.of(Body), motion.positions, motion.quaternions, strict=True):
        children = [
            builder.node({"name": body.name, "mesh": builder.mesh(surface, colour)})
            for surface, colour in geometry.of_body(body, scene)
        ]
        keys = rotation_keys.between(motion.t, q, _angular_velocity(solution, body.name, motion.rows))
        builder.moving_node(body.name, None, x=x, q=q, children=children, rotations=keys)


def _angular_velocity(solution: Run, name: str, rows: np.ndarray) -> np.ndarray | None:
    """Body-fixed angular velocity at some frames of a run; None if the run doesn't have it."""
    if name not in solution.bodies or "angular_velocities" not in solution.outputs:
        return None
    return np.asarray(solution.bodies[name].angular_velocity, float)[rows]


def _tube(builder: _Builder, line: Line, points: np.ndarray, size: float) -> None:
    """A stick for each segment, turned and stretched, and a ball for each node."""
    radius = line.radius or geometry.THIN * size * (2.2 if line.tints else 1.0)
    stick, ball = (builder.mesh(shape, line.colour, name) for shape, name in _PARTS)
    for i in range(points.shape[1]):
        builder.moving_node(f"{line.name}, node {i}", ball, x=points[:, i], scale=np.full(3, 2 * radius))
    for i in range(points.shape[1] - 1):
        across = points[:, i + 1] - points[:, i]
        length = np.maximum(np.linalg.norm(across, axis=1), 1e-9)
        scale = np.stack([np.full(len(length), 2 * radius), np.full(len(length), 2 * radius), length], axis=1)
        q = _least_turns(across / length[:, None])
        middle = (points[:, i + 1] + points[:, i]) / 2
        builder.moving_node(f"{line.name}, segment {i}", stick, x=middle, q=q, scale=scale)


_PARTS = ((geometry.stick(), "stick"), (geometry.ball(), "ball"))


def _least_turns(directions: np.ndarray) -> np.ndarray:
    """Unit quaternions (w, x, y, z) of the shortest rotations from the third axis to unit vectors (k, 3)."""
    w = 1 + directions[:, 2]
    back = w < 1e-9
    q = np.stack([w, -directions[:, 1], directions[:, 0], 0 * w], axis=1)
    q[back] = [0.0, 1.0, 0.0, 0.0]
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    flips = np.sign(np.sum(q[1:] * q[:-1], axis=1))
    q[1:] *= np.cumprod(np.where(flips < 0, -1.0, 1.0))[:, None]
    return q


class _Builder:
    """Collects the parts of a glTF file.

    - `t`: times of all frames in seconds, (k,).
    """

    def __init__(self, t: np.ndarray) -> None:
        self._bytes = bytearray()
        self._views: list[dict[str, Any]] = []
        self._accessors: list[dict[str, Any]] = []
        self._meshes: list[dict[str, Any]] = []
        self._materials: list[dict[str, Any]] = []
        self._nodes: list[dict[str, Any]] = []
        self._top: list[int] = []
        self._channels: list[dict[str, Any]] = []
        self._samplers: list[dict[str, Any]] = []
        self._mesh_numbers: dict[tuple[str, str], int] = {}
        self._geometries: dict[str, dict[str, Any]] = {}
        self._times = self._accessor(t.astype(np.float32)[:, None], "SCALAR") if len(t) > 1 else None

    def node(self, description: Mapping[str, Any]) -> int:
        """Adds a node that is a part of another one."""
        self._nodes.append(dict(description))
        return len(self._nodes) - 1

    def mesh(self, surface: geometry.Surface, colour: str, name: str | None = None) -> int:
        """A mesh of one colour; those with a name are stored once for each colour."""
        if name is not None and (name, colour) in self._mesh_numbers:
            return self._mesh_numbers[name, colour]
        shape = self._geometries.get(name or "")
        if shape is None:
            shape = {
                "attributes": {
                    "POSITION": self._accessor(surface.vertices, "VEC3", _VERTICES, limits=True),
                    "NORMAL": self._accessor(surface.normals, "VEC3", _VERTICES),
                },
                "indices": self._accessor(surface.faces.reshape(-1, 1), "SCALAR", _INDICES, kind=_UNSIGNED),
            }
            if name is not None:
                self._geometries[name] = shape
        self._meshes.append({"primitives": [{**shape, "material": self._material(colour)}]})
        if name is not None:
            self._mesh_numbers[name, colour] = len(self._meshes) - 1
        return len(self._meshes) - 1

    def moving_node(
        self,
        name: str,
        mesh: int | None,
        x: np.ndarray,
        q: np.ndarray | None = None,
        scale: np.ndarray | None = None,
        children: list[int] | None = None,
        rotations: rotation_keys.Keys | None = None,
    ) -> None:
        """Adds a node at places (k, 3), with quaternions (k, 4) and factors (3,) or (k, 3).

        `rotations`: keys of the rotation at other times than those of the frames.
        """
        node: dict[str, Any] = {"name": name, "translation": _list(x[0])}
        if mesh is not None:
            node["mesh"] = mesh
        if children:
            node["children"] = children
        number = len(self._nodes)
        self._animate(number, "translation", x, "VEC3")
        if q is not None:
            # glTF has the real part last.
            node["rotation"] = _list(np.roll(q[0], -1))
            keys, times = (q, self._times) if rotations is None else (rotations.q, self._instants(rotations.t))
            self._animate(number, "rotation", np.roll(keys, -1, axis=1), "VEC4", times)
        if scale is not None:
            node["scale"] = _list(np.atleast_2d(scale)[0])
            if scale.ndim == 2:
                self._animate(number, "scale", scale, "VEC3")
        self._nodes.append(node)
        self._top.append(number)

    def binary(self, name: str, scene: Scene) -> bytes:
        """The file. Its root turns the direction shown upwards to y, which is up in glTF."""
        up = np.asarray(scene.up, float) / np.linalg.norm(scene.up)
        self._nodes.append({"name": name, "children": self._top, "rotation": _list(_upright(up))})
        document: dict[str, Any] = {
            "asset": {"version": "2.0", "generator": "polhode"},
            "scene": 0,
            "scenes": [{"name": name, "nodes": [len(self._nodes) - 1]}],
            "nodes": self._nodes,
            "meshes": self._meshes,
            "materials": self._materials,
            "accessors": self._accessors,
            "bufferViews": self._views,
            "buffers": [{"byteLength": len(self._bytes)}],
        }
        if self._channels:
            document["animations"] = [{"name": "motion", "channels": self._channels, "samplers": self._samplers}]
        text = json.dumps(document).encode()
        text += b" " * (-len(text) % 4)
        whole = 12 + 8 + len(text) + 8 + len(self._bytes)
        head = struct.pack("<4sII", b"glTF", 2, whole)
        parts = (struct.pack("<I4s", len(text), b"JSON"), text, struct.pack("<I4s", len(self._bytes), b"BIN\0"))
        return b"".join((head, *parts, bytes(self._bytes)))

    def _instants(self, t: np.ndarray) -> int:
        """Times of keys, after those of the first frame."""
        return self._accessor((t - t[0]).astype(np.float32)[:, None], "SCALAR")

    def _animate(self, node: int, path: str, values: np.ndarray, kind: str, times: int | None = None) -> None:
        times = self._times if times is None else times
        if times is None or np.ptp(values, axis=0).max() == 0:
            return
        sampler = {"input": times, "output": self._accessor(values, kind), "interpolation": "LINEAR"}
        self._samplers.append(sampler)
        self._channels.append({"sampler": len(self._samplers) - 1, "target": {"node": node, "path": path}})

    def _material(self, colour: str) -> int:
        # Colours are in sRGB, factors of materials are linear.
        linear = np.where(rgb(colour) <= 0.04045, rgb(colour) / 12.92, ((rgb(colour) + 0.055) / 1.055) ** 2.4)
        look = {"baseColorFactor": [*_list(linear), 1.0], "metallicFactor": 0.0, "roughnessFactor": 0.55}
        material = {"pbrMetallicRoughness": look, "doubleSided": True}
        if material not in self._materials:
            self._materials.append(material)
        return self._materials.index(material)

    def _accessor(
        self, values: np.ndarray, shape: str, target: int | None = None, kind: int = _FLOAT, limits: bool = False
    ) -> int:
        data = np.ascontiguousarray(values, dtype="<u4" if kind == _UNSIGNED else "<f4")
        view = {"buffer": 0, "byteOffset": len(self._bytes), "byteLength": data.nbytes}
        self._views.append(view if target is None else {**view, "target": target})
        self._bytes += data.tobytes()
        accessor: dict[str, Any] = {
            "bufferView": len(self._views) - 1,
            "componentType": kind,
            "count": len(data),
            "type": shape,
        }
        if limits or (shape == "SCALAR" and target is None):
            accessor |= {"min": _list(data.min(axis=0)), "max": _list(data.max(axis=0))}
        self._accessors.append(accessor)
        return len(self._accessors) - 1


def _list(values: np.ndarray) -> list[float]:
    return [float(value) for value in values]


def _upright(up: np.ndarray) -> np.ndarray:
    """The quaternion (x, y, z, w) of the shortest rotation from a unit vector to y."""
    w = 1 + up[1]
    if w < 1e-9:
        return np.array([1.0, 0.0, 0.0, 0.0])
    q = np.array([-up[2], 0.0, up[0], w])
    return q / np.linalg.norm(q)
