"""Files that MJCF refers to: paths of those that MuJoCo may read, and placeholders for the others."""

from __future__ import annotations

import dataclasses
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

from polhode.importers._mujoco import mujoco
from polhode.importers.mesh_files import Finder, UnreadableFile

_FROM_GEOMS = mujoco.mjtInertiaFromGeom


@dataclasses.dataclass(frozen=True)
class OmittedAssets:
    """Assets left out of a specification. - `files`: each with the reason. - `geoms`: those without their shape."""

    files: tuple[str, ...] = ()
    geoms: tuple[Any, ...] = ()


def resolve_files(spec: Any, finder: Finder) -> OmittedAssets:
    """Restricts the files of a specification to those that `finder` finds; the others get placeholders.

    Raises ValueError for a mesh that gives a moving body its inertia.
    """
    files: dict[str, None] = {}
    absent = {mesh.name: str(why) for mesh in spec.meshes if (why := _resolve_file(spec, mesh, "meshdir", finder))}
    geoms = [geom for geom in spec.geoms if geom.meshname in absent]
    for geom in geoms:
        if _gives_inertia(geom):
            body = geom.parent.name or "without a name"
            raise ValueError(
                f"the inertia of body `{body}` comes from the mesh {absent[geom.meshname]}. Name the folder to look "
                "in: mesh_paths=[…]; or give the body an <inertial>."
            )
    for mesh in spec.meshes:
        if mesh.name in absent:
            _stand_in_mesh(mesh)
            files[absent[mesh.name]] = None
    for field in spec.hfields:
        why = _resolve_file(spec, field, "meshdir", finder)
        if why:
            field.file, field.nrow, field.ncol, field.userdata = "", 2, 2, np.zeros(4)
            files[why] = None
    for skin in list(spec.skins):
        # Skins are not drawn.
        if skin.file:
            spec.delete(skin)
    for texture in spec.textures:
        why = _texture(spec, texture, finder)
        if why:
            _stand_in_texture(texture)
            files[why] = None
    return OmittedAssets(tuple(files), tuple(geoms))


def _resolve_file(spec: Any, asset: Any, folder: str, finder: Finder) -> str:
    """Sets the path of an asset's file; returns which file can't be read and why, or ""."""
    if not asset.file:
        return ""
    name = _name(spec, asset, asset.file, folder)
    try:
        path = finder.find(name)
    except UnreadableFile as error:
        return str(error)
    # An asset without a name has that of its file, which must not change with the folder.
    asset.name = asset.name or PurePosixPath(asset.file.replace("\\", "/")).stem
    asset.file = str(path)
    return ""


def _name(spec: Any, asset: Any, file: str, folder: str) -> str:
    """The path of a file by MuJoCo's rules, relative to the folder of the model file."""
    plain = file.replace("\\", "/")
    if spec.strippath:
        plain = PurePosixPath(plain).name
    within = getattr(asset.compiler, folder) or getattr(spec, folder)
    return str(Path(within, plain)) if within else plain


def _gives_inertia(geom: Any) -> bool:
    """Whether the mass or inertia of a moving body follows from the geom."""
    body, compiler = geom.parent, geom.compiler
    first, last = compiler.inertiagrouprange
    counts = geom.mass != 0 and geom.density != 0 and first <= geom.group <= last
    setting = compiler.inertiafromgeom
    if setting == _FROM_GEOMS.mjINERTIAFROMGEOM_FALSE or (
        setting == _FROM_GEOMS.mjINERTIAFROMGEOM_AUTO and body.explicitinertial
    ):
        return False
    return counts and _moves(body)


def _moves(body: Any) -> bool:
    while body is not None:
        if len(body.joints):
            return True
        body = body.parent
    return False


def _stand_in_mesh(mesh: Any) -> None:
    """Replaces a mesh by a tetrahedron, so that references to its geoms stay valid."""
    mesh.file, mesh.scale = "", np.ones(3)
    mesh.uservert = np.array([0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 1], dtype=float)
    mesh.userface = np.array([0, 2, 1, 0, 1, 3, 0, 3, 2, 1, 2, 3])


def _texture(spec: Any, texture: Any, finder: Finder) -> str:
    """Sets the paths of the one or six files of a texture; returns as `_resolve_file` does."""
    if any(texture.cubefiles):
        for i, file in enumerate(texture.cubefiles):
            if file:
                try:
                    texture.cubefiles[i] = str(finder.find(_name(spec, texture, file, "texturedir")))
                except UnreadableFile as error:
                    return str(error)
        return ""
    return _resolve_file(spec, texture, "texturedir", finder)


def _stand_in_texture(texture: Any) -> None:
    """Replaces a texture by plain grey."""
    texture.file, texture.cubefiles = "", [""] * len(texture.cubefiles)
    texture.builtin, texture.rgb1 = mujoco.mjtBuiltin.mjBUILTIN_FLAT, [0.8, 0.8, 0.8]
    texture.width = texture.height = 1
    if texture.type != mujoco.mjtTexture.mjTEXTURE_2D:
        texture.height = 6
