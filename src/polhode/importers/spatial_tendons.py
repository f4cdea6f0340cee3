"""Spatial tendons of MuJoCo: strings through sites, around geoms and over pulleys."""

from __future__ import annotations

from typing import Any

import numpy as np

from polhode.forces.spring_damper import SpringDamper
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Construction
from polhode.joints.distance import Distance
from polhode.joints.string_length import Pulley, StringLength, Wrap
from polhode.multibody.bodies import Body

_SITE, _PULLEY = int(mujoco.mjtWrap.mjWRAP_SITE), int(mujoco.mjtWrap.mjWRAP_PULLEY)
_CYLINDER = int(mujoco.mjtWrap.mjWRAP_CYLINDER)


def string_length(construction: Construction, tendon: int) -> StringLength | str:
    """The length of a spatial tendon; why it is not carried, or "" for one whose length can't change."""
    m = construction.start.compiled
    rows = range(int(m.tendon_adr[tendon]), int(m.tendon_adr[tendon] + m.tendon_num[tendon]))
    why = next(filter(None, (_reason_not_carried(construction, row) for row in rows)), "")
    if why:
        return why
    points = [_item(construction, row) for row in rows]
    bodies = {id(item.body if isinstance(item, Wrap) else item[0]) for item in points if not isinstance(item, Pulley)}
    return StringLength(points) if len(bodies) > 1 else ""


def add_length(construction: Construction, equality: int, name: str) -> bool:
    """Adds the constant length of a tendon between two sites; returns whether it is one."""
    m = construction.start.compiled
    tendon = int(m.eq_obj1id[equality])
    if m.eq_obj2id[equality] >= 0 or not is_straight(m, tendon):
        return False
    length = float(m.tendon_length0[tendon] + m.eq_data[equality, 0])
    (first, second), (start, end) = _ends(construction, tendon)
    if not length > 0 or first is second:
        return False
    free = construction.free_name(name, "equality")
    construction.model.add(Distance(first, second, start, end, length, name=free))
    return True


def add_straight_spring(
    construction: Construction, tendon: int, rest: float, stiffness: float, damping: float, name: str
) -> None:
    """Adds the spring and damper of a tendon between two sites of different bodies."""
    (first, second), (start, end) = _ends(construction, tendon)
    free = construction.free_name(name, "tendon")
    construction.model.add(SpringDamper(first, second, start, end, stiffness, damping, rest, name=free))


def is_straight(m: Any, tendon: int) -> bool:
    """Whether a tendon goes from one site to another and nowhere else."""
    first, count = int(m.tendon_adr[tendon]), int(m.tendon_num[tendon])
    return count == 2 and bool(np.all(m.wrap_type[first : first + 2] == _SITE))


def bodies_of(m: Any, tendon: int) -> list[int]:
    """Numbers of the bodies on which a spatial tendon acts."""
    rows = range(int(m.tendon_adr[tendon]), int(m.tendon_adr[tendon] + m.tendon_num[tendon]))
    return [_body_of(m, row) for row in rows if int(m.wrap_type[row]) != _PULLEY]


def _body_of(m: Any, row: int) -> int:
    bodies = m.site_bodyid if int(m.wrap_type[row]) == _SITE else m.geom_bodyid
    return int(bodies[m.wrap_objid[row]])


def _item(construction: Construction, row: int) -> Any:
    """A row of a tendon as one of the points of a string."""
    m, data = construction.start.compiled, construction.start.data
    kind, number = int(m.wrap_type[row]), int(m.wrap_objid[row])
    if kind == _PULLEY:
        return Pulley(float(m.wrap_prm[row]))
    body = construction.body(_body_of(m, row))
    if kind == _SITE:
        return body, data.site_xpos[number].copy()
    side = int(m.wrap_prm[row])
    return Wrap(
        body,
        float(m.geom_size[number, 0]),
        data.geom_xpos[number].copy(),
        axis=data.geom_xmat[number].reshape(3, 3)[:, 2].copy() if kind == _CYLINDER else None,
        side=None if side < 0 else data.site_xpos[side].copy(),
    )


def _reason_not_carried(construction: Construction, row: int) -> str:
    """Why a string can't go around the geom of a row, or ""."""
    m, data = construction.start.compiled, construction.start.data
    if int(m.wrap_type[row]) in (_SITE, _PULLEY) or m.wrap_prm[row] < 0:
        return ""
    geom, side = int(m.wrap_objid[row]), int(m.wrap_prm[row])
    if construction.body(int(m.site_bodyid[side])) is not construction.body(int(m.geom_bodyid[geom])):
        return "the `sidesite` of a geom has to be fixed to the body of the geom"
    if np.linalg.norm(data.site_xpos[side] - data.geom_xpos[geom]) < m.geom_size[geom, 0]:
        return "strings through the inside of a geom, with a `sidesite` there, are not carried"
    return ""


def _ends(construction: Construction, tendon: int) -> tuple[list[Body], list[np.ndarray]]:
    """Bodies, and points in the inertial frame at the start."""
    m, data = construction.start.compiled, construction.start.data
    first = int(m.tendon_adr[tendon])
    sites = [int(site) for site in m.wrap_objid[first : first + 2]]
    return [construction.body(int(m.site_bodyid[s])) for s in sites], [data.site_xpos[s].copy() for s in sites]
