"""A scene for any model: bodies as solids of their inertia with limbs to their joints; drawn from the outputs of a run.

Bodies of files have the appearance in the file, or are drawn as a skeleton: `polhode.viewing.scene.robot_appearance`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.flexible.flexible_body import FlexibleBody
from polhode.forces.joint_forces import AbstractJointForce
from polhode.forces.spring_damper import LineSpring, LineSpringDamper
from polhode.joints.distance import ConstantDistance
from polhode.joints.string_length import StringLength
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose
from polhode.multibody.parts import AbstractForce, AbstractJoint, AbstractPart
from polhode.rods.edge import Edge, EdgeConstraint
from polhode.spaces import quaternions
from polhode.viewing.scene import arrows, body_shapes, inertia_solids, joint_symbols, robot_appearance, rod_tints, scene
from polhode.viewing.style import COLOURS

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

Part = TypeVar("Part", bound=AbstractPart)

_JOINTS, _SPRINGS, _RODS = "#555555", "#2a9d6f", "#4477aa"
_MOST_TRAILS = 4
_MOST_SOLID_SPHERES = 200
"""Largest number of spheres that are drawn with their rotation."""
_MOST_COILS = 24
"""Largest number of springs drawn as helices: nets of springs are clearer as lines."""


def to_dict(model: ModelParts, names: Sequence[str], looks: robot_appearance.Machine | None = None) -> dict[str, Any]:
    """The scene as plain values, which are stored with runs so that they can be drawn without the model.

    **Arguments:**

    - `model`: with numbers that are not traced by JAX.
    - `names`: of the bodies in the order of the rows of the output "positions".
    - `looks`: of the bodies of a file.
    """
    rows = {name: row for row, name in enumerate(names)}
    looks = body_shapes.machine_of(model) if looks is None else looks
    visible = [body for body in model.bodies if body.kind != "coordinate" and body.name in rows]
    if not visible:
        return {"up": _up(model), "bodies": [], "lines": [], "trails": []}
    places = np.array([body.x for body in visible])
    size = float(np.linalg.norm(np.ptp(places, axis=0))) or 1.0
    others = {name: row for name, row in rows.items() if looks is None or name not in looks.bodies}
    solids = [body for body in visible if body.rod is None and float(body.mass) > 0]
    spheres = [body for body in solids if body.diameter is not None]
    spheres = spheres if len(spheres) > _MOST_SOLID_SPHERES else []
    attachments = _attachments(model)
    bodies, extremities = [], []
    for i, body in enumerate(body for body in solids if body not in spheres):
        if body.name in others:
            points = attachments.get(body.name, [])
            own = {"name": body.name, "row": rows[body.name], "colour": COLOURS[i % len(COLOURS)]}
            bodies.append({**own, **inertia_solids.solid(body, points, size)})
            extremities += [{**own, **limb} for limb in inertia_solids.limbs(bodies[-1], points, size)]
    massless = {name: row for name, row in others.items() if name not in {body["name"] for body in bodies}}
    description = {
        "up": _up(model),
        "bodies": [*bodies, *extremities],
        "clouds": _cloud(spheres, rows),
        "lines": [
            *_skeleton(attachments, massless),
            *_between(model, rows),
            *_strings(model, rows),
            *_rods(model, rows),
            *_flexible(model, rows),
        ],
        "trails": [rows[body.name] for body in _farthest(model, visible)[:_MOST_TRAILS]],
        "arrows": arrows.to_dict(visible, rows, np.asarray(model.gravity)),
    }
    if looks is None:
        return {**description, "symbols": joint_symbols.to_dicts(model, rows, bodies, description["up"])}
    places = {body.name: np.asarray(body.x) for body in model.bodies}
    more = robot_appearance.to_scene_parts(looks, rows, places, np.array(description["up"]))
    bodies_with_shapes = {shape.body for shape in looks.shapes}
    bare = {name: row for name, row in rows.items() if name not in bodies_with_shapes}
    return {
        **description,
        "symbols": joint_symbols.to_dicts(model, bare, bodies, description["up"]),
        "bodies": [*more.bodies, *description["bodies"]],
        "lines": [*more.lines, *description["lines"]],
        "meshes": more.meshes,
        "floor": more.floor,
    }


def from_dict(description: Mapping[str, Any]) -> scene.Scene:
    """The scene from a description; it reads the outputs "positions", and "rotations" or "quaternions"."""
    solids = [*description["bodies"], *description.get("symbols", ())]
    poses = {row: _BodyPose(row) for row in {b["row"] for b in solids}}
    bodies = [
        scene.Body(**{key: value for key, value in b.items() if key != "row"}, pose=poses[b["row"]]) for b in solids
    ]
    lines = [
        scene.Line(
            line["name"],
            _BodyPoints(tuple(line["rows"]), jnp.asarray(line["points"])),
            line["colour"],
            tints=rod_tints.from_dict(line["edges"], line["rows"], pose_of) if "edges" in line else None,
            coil=line.get("coil", False),
        )
        for line in description["lines"]
    ]
    clouds = [
        scene.Cloud(cloud["name"], _centres(cloud), np.asarray(cloud["diameters"]), cloud["colour"])
        for cloud in description.get("clouds", ())
    ]
    trails = [scene.Trail("positions", row) for row in description["trails"]]
    more = {key: description[key] for key in ("meshes", "floor") if key in description}
    parts = (*bodies, *lines, *clouds, *trails, *arrows.from_dict(description.get("arrows", ()), pose_of))
    return scene.Scene(parts, tuple(description["up"]), "outputs", description, **more)


class _Centres(eqx.Module):
    rows: tuple[int, ...] = eqx.field(static=True)
    output: str = eqx.field(static=True)

    def __call__(self, t: Array, outputs: Mapping[str, Array]) -> Float[Array, "n 3"]:
        return outputs[self.output][np.array(self.rows)]


def _centres(cloud: Mapping[str, Any]) -> _Centres:
    """Spheres are bodies, or parts of some with an output of their own."""
    return _Centres(tuple(cloud["rows"]), cloud.get("output", "positions"))


class _BodyPose(eqx.Module):
    row: int = eqx.field(static=True)

    def __call__(self, t: Array, outputs: Mapping[str, Array]) -> tuple[Array, Array]:
        return pose_of(outputs, self.row)


class _BodyPoints(eqx.Module):
    """Points of bodies; -1 in place of a row is the ground."""

    rows: tuple[int, ...] = eqx.field(static=True)
    points: Float[Array, "n 3"]

    def __call__(self, t: Array, outputs: Mapping[str, Array]) -> Float[Array, "n 3"]:
        poses = {row: pose_of(outputs, row) for row in set(self.rows)}
        return jnp.stack([poses[row].x + poses[row].R @ s for row, s in zip(self.rows, self.points, strict=True)])


def pose_of(outputs: Mapping[str, Array], row: int) -> Pose:
    """Pose of the body in a row of the outputs; -1 is the ground."""
    if row < 0:
        return Pose(jnp.zeros(3), jnp.eye(3))
    if "rotations" in outputs:
        return Pose(outputs["positions"][row], outputs["rotations"][row])
    return Pose(outputs["positions"][row], quaternions.to_matrix(outputs["quaternions"][row]))


def _up(model: ModelParts) -> list[float]:
    """The coordinate axis nearest to the opposite of gravity, z without gravity."""
    lift = -np.asarray(model.gravity)
    axis = int(np.argmax(np.abs(lift))) if np.any(lift) else 2
    return [(-1.0 if lift[axis] < 0 else 1.0) if i == axis else 0.0 for i in range(3)]


def _cloud(spheres: Sequence[Body], rows: Mapping[str, int]) -> list[dict[str, Any]]:
    if not spheres:
        return []
    sizes = [float(body.diameter) for body in spheres]
    colour = COLOURS[0]
    return [{"name": "particles", "rows": [rows[body.name] for body in spheres], "diameters": sizes, "colour": colour}]


def _attachments(model: ModelParts) -> dict[str, list[np.ndarray]]:
    """Points of joints and forces on each body, in its frame."""
    points: dict[str, list[np.ndarray]] = {}
    for part in (*_parts(model, AbstractJoint), *_parts(model, AbstractForce)):
        if not isinstance(part, Edge | EdgeConstraint):
            for body, point in zip(part.bodies, _points(part), strict=False):
                points.setdefault(body.name, []).append(np.asarray(point))
    return points


def _skeleton(points: Mapping[str, list[np.ndarray]], rows: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    """One line for each body: its points, with its centre of mass after each."""
    centre = [0.0, 0.0, 0.0]
    for name, places in points.items():
        if name in rows and any(np.linalg.norm(place) > 0 for place in places):
            line = [end for place in places for end in (place.tolist(), centre)]
            yield {"name": "joints", "rows": [rows[name]] * len(line), "points": line, "colour": _JOINTS}


def _between(model: ModelParts, rows: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    """Lines from body to body: rods of constant length, and springs."""
    placements = [
        (part, part.initial_element()) for part in (*_parts(model, AbstractJoint), *_parts(model, AbstractForce))
    ]
    springs = [part for part, element in placements if isinstance(element, LineSpring | LineSpringDamper)]
    for part in (part for part, element in placements if isinstance(element, ConstantDistance)):
        yield _line(part, rows, "rods", _JOINTS)
    for part in springs:
        yield {**_line(part, rows, "springs", _SPRINGS), "coil": len(springs) <= _MOST_COILS}


def _strings(model: ModelParts, rows: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    """One line for each branch of a string through points of bodies; straight past what it goes around."""
    strings = {id(part.joint): part.joint for part in _parts(model, AbstractJointForce)}
    for string in strings.values():
        for branch in string.branches() if isinstance(string, StringLength) else ():
            yield {
                "name": "strings",
                "rows": [rows.get(body.name, -1) for body, _ in branch],
                "points": [np.asarray(point).tolist() for _, point in branch],
                "colour": _SPRINGS,
            }


def _line(part: AbstractPart, rows: Mapping[str, int], name: str, colour: str) -> dict[str, Any]:
    ends = [rows.get(body.name, -1) for body in part.bodies]
    return {"name": name, "rows": ends, "points": _points(part), "colour": colour}


def _rods(model: ModelParts, rows: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    """One line for each rod, from node to node."""
    rods: dict[str, list[Edge]] = {}
    for edge in _parts(model, Edge):
        rods.setdefault(str(edge.name).rsplit("-edge-", 1)[0], []).append(edge)
    for name, edges in rods.items():
        ends = [(edges[0].first, edges[0].shape.frames[0]), *((e.second, e.shape.frames[1]) for e in edges)]
        yield {
            "name": name,
            "rows": [rows.get(body.name, -1) for body, _ in ends],
            "points": [[0.0, 0.0, 0.0] if frame is None else np.asarray(frame.x).tolist() for _, frame in ends],
            "colour": _RODS,
            "edges": rod_tints.to_dict(edges),
        }


def _flexible(model: ModelParts, rows: Mapping[str, int]) -> Iterable[dict[str, Any]]:
    """One line for each flexible body, from its centre of mass to each node."""
    for body in (body for body in model.bodies if isinstance(body, FlexibleBody)):
        ends = [rows[name] for node in body.nodes for name in (body.name, node.name)]
        yield {"name": body.name, "rows": ends, "points": [[0.0, 0.0, 0.0]] * len(ends), "colour": _RODS}


def _parts(model: ModelParts, kind: type[Part]) -> list[Part]:
    return [part for _, part in model.parts if isinstance(part, kind)]


def _points(part: AbstractPart) -> list[list[float]]:
    """Points of a part on its two bodies, in their frames; empty if it has no such points."""
    return [np.asarray(point).tolist() for point in part.initial_element().points()]


def _farthest(model: ModelParts, bodies: Sequence[Body]) -> list[Body]:
    """The bodies with the most joints between them and the ground, or the first body of a floating system."""
    connections = (*_parts(model, AbstractJoint), *_parts(model, Edge))
    pairs = [[body.name for body in part.bodies] for part in connections if not isinstance(part, EdgeConstraint)]
    steps = _steps("ground", pairs)
    for body in bodies:
        if body.name not in steps:
            steps |= {name: 1 + count for name, count in _steps(body.name, pairs).items()}
    most = max(steps[body.name] for body in bodies)
    return [body for body in bodies if steps[body.name] == most]


def _steps(start: str, pairs: Sequence[Sequence[str]]) -> dict[str, int]:
    """Number of joints between a body and each body that is connected to it."""
    distances, queue = {start: 0}, [start]
    for name in queue:
        near = {other for pair in pairs if name in pair for other in pair if other not in distances}
        distances |= dict.fromkeys(near, distances[name] + 1)
        queue += sorted(near)
    return distances
