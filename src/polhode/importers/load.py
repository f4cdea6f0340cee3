"""Reads a model file into a model, and lists what could not be carried over."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.importers import (
    actuators,
    add_joints,
    appearance,
    compile,
    contact_rules,
    equality_constraints,
    loads,
    losses,
    mesh_files,
    site_actuators,
    sources,
    tendons,
)
from polhode.importers._mujoco import mujoco
from polhode.importers.compiled_model import CompiledModel, ReadOptions
from polhode.importers.construction import Construction, build_bodies
from polhode.importers.contact_rules import ContactOptions
from polhode.importers.imported_model import ImportedModel
from polhode.importers.joints import FileJoint
from polhode.importers.loads import ImportOptions
from polhode.importers.losses import NotCarried
from polhode.name_errors import NameDict


class LoadRequest(NamedTuple):
    """The arguments of `polhode.load_model`, but for the source."""

    positions: Mapping[str, Any]
    velocities: Mapping[str, Any]
    keyframe: str | int | None
    floating: bool
    check_inertia: bool
    options: ImportOptions
    touch: ContactOptions
    folders: tuple[Path, ...]

    def parameters(self, path: str | None) -> dict[str, Any]:
        """The arguments as the parameters of a problem; `path`: the path, or XML."""
        return {
            "path": path,
            "positions": dict(self.positions),
            "velocities": dict(self.velocities),
            "keyframe": self.keyframe,
            "floating": self.floating,
            "check_inertia": self.check_inertia,
            "controls": {name: "a function" if callable(u) else u for name, u in self.options.controls.items()},
            "limits": self.options.limits,
            "stick_velocity": self.options.stick_velocity,
            "joint_law": "rigid" if self.options.rigid else "smooth",
            "contacts": self.touch.contacts,
            "floor": repr(self.touch.floor) if self.touch.floor is not None else None,
            "friction": self.touch.friction,
            "mesh_paths": [str(folder) for folder in self.folders],
        }


def mapping(name: str, values: Mapping[str, Any] | None) -> Mapping[str, Any]:
    """Values by name, none by default. Raises ValueError unless they are a mapping."""
    if values is not None and not isinstance(values, Mapping):
        raise ValueError(f"`{name}` must be a mapping from names to values, got {short_repr(values)}.")
    return {} if values is None else values


@eager_numpy()
def load(path: Any, request: LoadRequest) -> ImportedModel:
    """See `polhode.load_model`."""
    began = time.perf_counter()
    source = sources.read_source(path)
    finder = mesh_files.Finder(None if source.path is None else source.path.parent, request.folders)
    compiled = compile.compile_source(source, finder, ReadOptions(request.floating, request.check_inertia))
    try:
        _check_moving(compiled)
        start = compile.build_start(compiled, request.keyframe, request.positions, request.velocities)
        construction = build_bodies(start, request.check_inertia)
        records = add_joints.build_joints(construction, compiled.velocity_limits)
        not_carried = [*compiled.losses, *_add_parts(construction, records, request.options)]
        if request.touch.requested:
            not_carried = [one for one in not_carried if one.reason != losses.PASS_THROUGH]
        not_carried += contact_rules.add_contacts(construction, compiled, request.touch)
        shapes, undrawn = compiled.draw(construction)
    except ValueError as error:
        raise ValueError(f"{source.label}: {error}") from error
    construction.model.file_joints.update({record.name: record for record in records if record.measured})
    appearance.warn_of_missing(undrawn, source.label)
    links = {start.name(mujoco.mjtObj.mjOBJ_BODY, i): construction.body(i) for i in range(compiled.model.nbody)}
    return ImportedModel(
        name=compiled.name or source.stem,
        source=source.label,
        model=construction.model,
        links=NameDict("link or body of the file", links),
        joints=NameDict("joint of the file", {record.name: record for record in records}),
        not_carried=not_carried,
        parameters=request.parameters(source.origin),
        timestep=float(compiled.model.opt.timestep),
        start=start,
        held=add_joints.held_values(records, request.positions, request.velocities),
        load_time=time.perf_counter() - began,
        looks=appearance.machine(construction, shapes),
    )


def _add_parts(construction: Construction, joints: list[FileJoint], options: ImportOptions) -> list[NotCarried]:
    """Adds all parts but bodies and joints; returns what could not be carried over."""
    site_actuators.add_compensation(construction)
    return [
        *equality_constraints.add_equalities(construction, joints),
        *loads.add_passive(construction, joints, options),
        *tendons.add_tendons(construction, {joint.number: joint for joint in joints}, options),
        *actuators.add_actuators(construction, joints, options),
        *losses.model_losses(construction.start),
    ]


def _check_moving(compiled: CompiledModel) -> None:
    """Raises ValueError, with the remedy, if nothing can move."""
    if not np.any(compiled.model.body_jntnum):
        raise ValueError(
            f"There are no moving bodies: nothing is joined by anything but fixed joints. {compiled.remedy}"
        )
