"""From a document to a compiled model."""

from __future__ import annotations

import functools
from typing import Any
from xml.etree.ElementTree import Element

from polhode.importers.compiled_model import CompiledModel, ReadOptions
from polhode.importers.mesh_files import Finder
from polhode.importers.sdformat import couplings, documents, joints, losses, scopes, shapes, tree, values
from polhode.importers.sources import Source

_GRAVITY = (0.0, 0.0, -9.8)
"""Of documents that give none."""


def read(source: Source, finder: Finder, options: ReadOptions) -> CompiledModel:
    """A world, or a model on its own in one."""
    if options.floating:
        raise ValueError(
            "`floating` is for URDF, which can't say it; a model of SDFormat floats unless it is <static> or a joint "
            "ties it to the world."
        )
    assert source.root is not None
    document = documents.expand(source.root, finder)
    world = scopes.build_scopes(document)
    links, all_joints = world.links(), joints.read_joints(document, world)
    name = _name(document.root)
    spec = tree.build_links(name, tree.span(links, [joint for joint in all_joints if joint.kind != joints.GEARBOX]))
    _set_options(spec.spec, world.element)
    lost = [
        *losses.find_losses(document, world, links, all_joints),
        *couplings.add_mimics(spec.spec, all_joints),
        *couplings.add_gearboxes(spec.spec, all_joints),
    ]
    model = spec.compile()
    return CompiledModel(
        model,
        name,
        spec.inertials_by_number(model),
        functools.partial(shapes.draw, document, links),
        functools.partial(shapes.collision_shapes, document, links),
        "Take <static> out, or give links joints that move." if links else "It has no <link>.",
        tuple(lost),
        joints.velocity_limits(all_joints),
        joints.initial_positions(all_joints),
    )


def _name(root: Element) -> str:
    first = next((child for tag in ("world", "model") for child in root.findall(tag)), None)
    return "" if first is None else first.get("name", "")


def _set_options(spec: Any, world: Element) -> None:
    """Gravity and step. Up to version 1.5 gravity is a part of <physics>."""
    physics = next(
        (each for each in world.findall("physics") if each.get("default") in ("true", "1")), world.find("physics")
    )
    gravity = values.vector(physics, "gravity", "<physics>", _GRAVITY)
    spec.option.gravity = values.vector(world, "gravity", "the world", gravity.tolist())
    if values.text(physics, "max_step_size"):
        spec.option.timestep = values.positive(physics, "max_step_size", "<physics>")
