"""Reader of MJCF, and of specifications of MuJoCo."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from polhode.importers import appearance, assets
from polhode.importers.assets import OmittedAssets
from polhode.importers.compiled_model import CompiledModel, Drawing, ReadOptions
from polhode.importers.construction import Construction, Inertial, from_principal_moments
from polhode.importers.mesh_files import Finder
from polhode.importers.sources import Source


def read(source: Source, finder: Finder, options: ReadOptions) -> CompiledModel:
    """A model as MuJoCo compiles it."""
    if options.floating:
        raise ValueError("`floating` is for URDF, which can't say it; in MJCF give the body a <freejoint/>.")
    spec, omitted = _build_spec(source, finder)
    try:
        return _compiled_model(source, spec.compile(), {}, omitted)
    except ValueError as error:
        if options.check_inertia or "inertia" not in str(error):
            raise
    # MuJoCo refuses the masses of some bodies: it gets placeholders, and those of the file are used.
    spec, omitted = _build_spec(source, finder)
    aside = [(body, _set_aside(body)) for body in spec.bodies if body.explicitinertial]
    model = spec.compile()
    inertials = {body.id: inertial(model.body_iquat[body.id]) for body, inertial in aside}
    return _compiled_model(source, model, inertials, omitted)


def _build_spec(source: Source, finder: Finder) -> tuple[Any, OmittedAssets]:
    spec = source.build_spec()
    # A specification of the user has the paths that the user set.
    return spec, OmittedAssets() if source.specification is not None else assets.resolve_files(spec, finder)


def _compiled_model(
    source: Source, model: Any, inertials: Mapping[int, Inertial], omitted: OmittedAssets
) -> CompiledModel:
    name = source.specification.modelname if source.root is None else source.root.get("model")
    draw = functools.partial(_draw, omitted)
    return CompiledModel(
        model, name or "", inertials, draw, appearance.collision_shapes, "Give a body a joint, or a <freejoint/>."
    )


def _draw(omitted: OmittedAssets, construction: Construction) -> Drawing:
    unseen = frozenset(int(geom.id) for geom in omitted.geoms)
    return appearance.mujoco_shapes(construction, unseen), list(omitted.files)


def _set_aside(body: Any) -> Callable[[np.ndarray], Inertial]:
    """Replaces a body's inertial by one that MuJoCo accepts; returns its own as a function of the principal axes."""
    mass, centre, moments, full = (
        float(body.mass),
        np.nan_to_num(body.ipos),
        body.inertia.copy(),
        body.fullinertia.copy(),
    )
    body.mass = 1.0
    if np.isnan(full[0]):
        body.inertia = np.ones(3)
        return lambda quaternion: from_principal_moments(mass, centre, quaternion, moments)
    body.fullinertia = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    xx, yy, zz, xy, xz, yz = full
    matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return lambda _: Inertial(mass, centre, matrix)
