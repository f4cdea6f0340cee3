"""Shapes of links, for formats that describe them link by link."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Construction, Frame
from polhode.importers.mesh_files import MeshFile
from polhode.viewing.scene.robot_appearance import Shape


class Form(NamedTuple):
    """A geometry. - `kind`, `size`, `mesh`: as of a `Shape`."""

    kind: str
    size: np.ndarray
    mesh: MeshFile | None = None


def box(size: np.ndarray, where: str) -> Form:
    """Raises ValueError unless some extents are positive and none negative. - `where`: its name in messages."""
    if np.any(size < 0) or not np.any(size):
        raise ValueError(f"`size` of <box> in {where} must be positive, it is {' '.join(f'{a:g}' for a in size)}.")
    return Form("box", size)


def cylinder(radius: float, length: float) -> Form:
    """A cylinder about z."""
    return Form("cylinder", np.array([2 * radius, 2 * radius, length]))


def capsule(radius: float, length: float) -> Form:
    """A capsule. - `length`: of its cylinder."""
    return Form("capsule", np.array([2 * radius, 2 * radius, length + 2 * radius]))


def place(construction: Construction, link: str, frame: Frame, form: Form, rgba: np.ndarray | None) -> Shape:
    """A form as a shape. - `frame`: on its link. - `rgba`: its colour; None if the file has none."""
    number = mujoco.mj_name2id(construction.start.compiled, mujoco.mjtObj.mjOBJ_BODY, link)
    at = construction.start.pose(number).compose(frame)
    return Shape(
        body=construction.body(number).name,
        link=link,
        kind=form.kind,
        size=form.size,
        x=construction.local(number, at.x),
        R=construction.direction(number, at.R),
        colour=None if rgba is None else "#" + "".join(f"{round(255 * c):02x}" for c in rgba[:3].clip(0, 1)),
        mesh=form.mesh,
    )
