"""Appearance of the bodies of a compiled MuJoCo model, and a skeleton for bodies without a shape."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from typing import Any

import numpy as np

from polhode.file_warning import ModelFileWarning
from polhode.importers._mujoco import mujoco
from polhode.importers.compiled_meshes import CompiledMesh, HeightField
from polhode.importers.construction import Construction
from polhode.jax_context import warn
from polhode.viewing.scene.mesh import AbstractMesh
from polhode.viewing.scene.robot_appearance import Bone, Machine, Shape

_GEOM, _OBJ = mujoco.mjtGeom, mujoco.mjtObj
_LAST_VISIBLE_GROUP = 2
"""The last group of geoms that MuJoCo's viewer shows; further ones hold shapes for collisions."""
_DEFAULT_COLOUR = np.array([0.5, 0.5, 0.5, 1.0])
"""Colour of geoms that a file gives none."""


def machine(construction: Construction, shapes: tuple[Shape, ...]) -> Machine:
    """Bodies, frames and bones of an imported model, with shapes."""
    own = {number: body for number, body in construction.carriers.items() if number}
    frames = {}
    for number, body in own.items():
        pose = construction.start.pose(number)
        frames[body.name] = construction.local(number, pose.x), construction.direction(number, pose.R)
    names = tuple(body.name for body in construction.model.bodies)
    return Machine(names, construction.model.ground.name, frames, tuple(_bones(construction)), shapes)


def _bones(construction: Construction) -> Iterator[Bone]:
    """From the joint of each body of the file to those of the bodies that it carries, or to its centre of mass."""
    start = construction.start
    m = start.compiled
    for number in range(1, m.nbody):
        parent = int(m.body_parentid[number])
        if parent:
            yield _bone(
                construction, parent, (parent, number), (_joint(construction, parent), _joint(construction, number))
            )
        body = construction.body(number)
        is_last = not np.any(m.body_parentid[1:] == number)
        if is_last and number in construction.carriers:
            yield _bone(construction, number, (number, number), (_joint(construction, number), np.asarray(body.x)))


def _bone(construction: Construction, of: int, numbers: tuple[int, int], points: tuple[Any, Any]) -> Bone:
    (a, b), (p, q) = numbers, points
    bodies = construction.body(a).name, construction.body(b).name
    return Bone(construction.body(of).name, bodies, (construction.local(a, p), construction.local(b, q)))


def _joint(construction: Construction, number: int) -> np.ndarray:
    """Where a MuJoCo body turns, or its origin, in the inertial frame at the start."""
    m, data = construction.start.compiled, construction.start.data
    first = int(m.body_jntadr[number])
    turns = first >= 0 and m.jnt_type[first] in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_BALL)
    return data.xanchor[first] if turns else data.xpos[number]


def mujoco_shapes(construction: Construction, unseen: Collection[int]) -> tuple[Shape, ...]:
    """The geoms that MuJoCo's viewer shows, or hidden ones of bodies without any. - `unseen`: numbers to leave out."""
    m = construction.start.compiled
    by_body: dict[str, list[int]] = {}
    for geom in range(m.ngeom):
        if geom not in unseen and _rgba(m, geom)[3] > 0:
            by_body.setdefault(construction.body(int(m.geom_bodyid[geom])).name, []).append(geom)
    meshes: dict[tuple[str, int], AbstractMesh] = {}
    shapes = []
    for geoms in by_body.values():
        visible = [geom for geom in geoms if m.geom_group[geom] <= _LAST_VISIBLE_GROUP]
        shapes += [_shape(construction, geom, meshes) for geom in visible or geoms]
    return tuple(shape for shape in shapes if shape is not None)


def collision_shapes(construction: Construction) -> list[tuple[Shape, int | None]]:
    """The geoms that touch others, with their numbers."""
    m = construction.start.compiled
    meshes: dict[tuple[str, int], AbstractMesh] = {}
    paired = {int(geom) for geom in (*m.pair_geom1, *m.pair_geom2)}
    colliding = [g for g in range(m.ngeom) if m.geom_contype[g] or m.geom_conaffinity[g] or g in paired]
    drawn = [(_shape(construction, geom, meshes), geom) for geom in colliding]
    return [(shape, geom) for shape, geom in drawn if shape is not None]


def _shape(construction: Construction, geom: int, meshes: dict[tuple[str, int], AbstractMesh]) -> Shape | None:
    m, data = construction.start.compiled, construction.start.data
    number, kind = int(m.geom_bodyid[geom]), _GEOM(int(m.geom_type[geom]))
    a, b, c = m.geom_size[geom]
    forms = {
        _GEOM.mjGEOM_PLANE: ("plane", (2 * a, 2 * b, 0)),
        _GEOM.mjGEOM_SPHERE: ("ellipsoid", (2 * a, 2 * a, 2 * a)),
        _GEOM.mjGEOM_CAPSULE: ("capsule", (2 * a, 2 * a, 2 * (a + b))),
        _GEOM.mjGEOM_ELLIPSOID: ("ellipsoid", (2 * a, 2 * b, 2 * c)),
        _GEOM.mjGEOM_CYLINDER: ("cylinder", (2 * a, 2 * a, 2 * b)),
        _GEOM.mjGEOM_BOX: ("box", (2 * a, 2 * b, 2 * c)),
        _GEOM.mjGEOM_MESH: ("mesh", (0, 0, 0)),
        _GEOM.mjGEOM_SDF: ("mesh", (0, 0, 0)),
        _GEOM.mjGEOM_HFIELD: ("mesh", (0, 0, 0)),
    }
    if kind not in forms:
        return None
    form, size = forms[kind]
    mesh = None
    if form == "mesh":
        of, data_number = (HeightField if kind == _GEOM.mjGEOM_HFIELD else CompiledMesh), int(m.geom_dataid[geom])
        # Geoms share meshes, so that a page holds each once.
        mesh = meshes.setdefault((of.__name__, data_number), of(m, data_number))
    # MuJoCo has moved the vertices of meshes to their centres and principal axes; the places of geoms follow that.
    return Shape(
        body=construction.body(number).name,
        link=construction.start.name(_OBJ.mjOBJ_BODY, number),
        kind=form,
        size=np.array(size, dtype=float),
        x=construction.local(number, data.geom_xpos[geom]),
        R=construction.direction(number, data.geom_xmat[geom].reshape(3, 3)),
        colour=_colour(m, geom),
        mesh=mesh,
    )


def _rgba(m: Any, geom: int) -> np.ndarray:
    """Colour of a geom, by default that of its material."""
    own, material = m.geom_rgba[geom], int(m.geom_matid[geom])
    return m.mat_rgba[material] if material >= 0 and np.array_equal(own, _DEFAULT_COLOUR) else own


def _colour(m: Any, geom: int) -> str | None:
    """Colour with the mean of the texture; None if the file gives none."""
    rgba, material = np.array(_rgba(m, geom), dtype=float), int(m.geom_matid[geom])
    if material < 0 and np.array_equal(m.geom_rgba[geom], _DEFAULT_COLOUR):
        return None
    if material >= 0:
        textures = [int(t) for t in m.mat_texid[material] if t >= 0]
        if textures:
            rgba[:3] *= _mean(m, textures[0])
    return "#" + "".join(f"{round(255 * float(np.clip(value, 0, 1))):02x}" for value in rgba[:3])


def _mean(m: Any, texture: int) -> np.ndarray:
    """Mean colour of a texture, between 0 and 1."""
    channels, first = int(m.tex_nchannel[texture]), int(m.tex_adr[texture])
    count = int(m.tex_height[texture]) * int(m.tex_width[texture])
    values = m.tex_data[first : first + count * channels].reshape(count, channels)
    return np.broadcast_to(values[:, : 3 if channels > 2 else 1].mean(axis=0) / 255, (3,))


def warn_of_missing(undrawn: Sequence[str], label: str) -> None:
    """Warns of shapes that are not drawn, with the reasons."""
    if undrawn:
        warn(
            f"{label}: shapes that are not drawn: {'; '.join(undrawn)}. The motion doesn't depend on them. Files are "
            "looked for in the folder of the model file, in its package, and in those of mesh_paths=[…].",
            ModelFileWarning,
        )
