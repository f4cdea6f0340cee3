"""Reader of URDF."""

from __future__ import annotations

import functools
from collections.abc import Iterator
from xml.etree import ElementTree

import numpy as np

from polhode.importers import urdf, urdf_shapes
from polhode.importers.compiled_model import CompiledModel, ReadOptions
from polhode.importers.losses import PASS_THROUGH, NotCarried
from polhode.importers.mesh_files import Finder
from polhode.importers.sources import Source


def read(source: Source, finder: Finder, options: ReadOptions) -> CompiledModel:
    """A robot; its masses and inertias replace those of MuJoCo's model."""
    root = source.root
    assert root is not None
    links = urdf.build_links(root, options.floating)
    model = links.compile()
    loose = model.nbody > 1
    return CompiledModel(
        model,
        root.get("name", ""),
        links.inertials_by_number(model),
        functools.partial(urdf_shapes.robot_shapes, root, finder),
        functools.partial(urdf_shapes.collision_shapes, root, finder),
        "Read it with floating=True, which lets its root link go." if loose else "It has no link to let go.",
        tuple(_losses(root)),
        _velocity_limits(root),
    )


def _losses(root: ElementTree.Element) -> Iterator[NotCarried]:
    """Losses of URDF that MuJoCo's reader ignores."""
    cones = tuple(
        joint.get("name", "")
        for joint in root.iter("joint")
        if joint.get("type") == "spherical" and joint.find("limit[@upper]") is not None
    )
    if cones:
        yield NotCarried("limits of joints", cones, "spherical joints turn without limits")
    followers = _idle_mimics(root)
    if followers:
        yield NotCarried("mimic", followers, "only hinges and slides follow others of the file")
    colliding = tuple(link.get("name", "") for link in root.iter("link") if link.find("collision") is not None)
    if len(colliding) > 1:
        yield NotCarried("contacts", colliding, PASS_THROUGH)


def _velocity_limits(root: ElementTree.Element) -> dict[str, float]:
    """Velocity limits of joints by name; zero stands for none."""
    limits = {joint.get("name", ""): _limit(joint.find("limit[@velocity]")) for joint in root.findall("joint")}
    return {name: limit for name, limit in limits.items() if 0 < limit < np.inf}


def _limit(element: ElementTree.Element | None) -> float:
    """The velocity limit of an element; infinite if it is no number, since it affects no motion."""
    try:
        return np.inf if element is None else float(element.get("velocity", "inf"))
    except ValueError:
        return np.inf


def _idle_mimics(root: ElementTree.Element) -> tuple[str, ...]:
    """Mimic joints without effect: one of the two joints is no hinge or slide, or is missing."""
    movable = {
        joint.get("name")
        for joint in root.iter("joint")
        if joint.get("type") in ("revolute", "continuous", "prismatic")
    }
    followers = [joint for joint in root.findall("joint") if joint.get("type") != "fixed"]
    pairs = ((joint.get("name", ""), joint.find("mimic")) for joint in followers)
    return tuple(
        f"{name} after {mimic.get('joint')}"
        for name, mimic in pairs
        if mimic is not None and not {name, mimic.get("joint")} <= movable
    )
