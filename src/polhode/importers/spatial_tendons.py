"""Straight tendons of MuJoCo between two sites."""

from __future__ import annotations

import numpy as np

from polhode.forces.spring_damper import SpringDamper
from polhode.importers._mujoco import is_disabled, mujoco
from polhode.importers.construction import Construction
from polhode.importers.fixed_tendons import is_fixed
from polhode.importers.losses import NotCarried
from polhode.joints.distance import Distance
from polhode.multibody.bodies import Body


def add_tendons(construction: Construction) -> list[NotCarried]:
    """Springs and dampers between two points; returns what could not be carried over."""
    start = construction.start
    losses: dict[str, list[str]] = {}
    for tendon in range(start.compiled.ntendon):
        if is_fixed(start.compiled, tendon):
            continue
        name = start.name(mujoco.mjtObj.mjOBJ_TENDON, tendon)
        why = _add_spring(construction, tendon, name)
        if why:
            losses.setdefault(why, []).append(name)
    return [NotCarried("tendons", tuple(names), why) for why, names in losses.items()]


def add_length(construction: Construction, equality: int, name: str) -> str:
    """Adds the constant length of a tendon; returns why it is not carried, or ""."""
    m = construction.start.compiled
    tendon = int(m.eq_obj1id[equality])
    if m.eq_obj2id[equality] >= 0 or not _is_straight(construction, tendon):
        return "only the length of one tendon between two sites is held"
    length = float(m.tendon_length0[tendon] + m.eq_data[equality, 0])
    (first, second), (start, end) = _ends(construction, tendon)
    if not length > 0 or first is second:
        return "there is no length between two bodies to hold"
    free = construction.free_name(name, "equality")
    construction.model.add(Distance(first, second, start, end, length, name=free))
    return ""


def _add_spring(construction: Construction, tendon: int, name: str) -> str:
    """Adds a tendon; returns why it is not carried, or ""."""
    m = construction.start.compiled
    if not _is_straight(construction, tendon):
        return "only those over joints and between two sites are carried"
    if m.tendon_limited[tendon] or m.tendon_frictionloss[tendon] or m.tendon_armature[tendon]:
        return "those with limits, dry friction or armature are not carried"
    if np.any(m.tendon_stiffnesspoly[tendon]) or np.any(m.tendon_dampingpoly[tendon]) or m.tendon_springyield[tendon]:
        return "nonlinear springs and dampers are not carried"
    stiffness = 0.0 if is_disabled(m, "spring") else float(m.tendon_stiffness[tendon])
    damping = 0.0 if is_disabled(m, "damper") else float(m.tendon_damping[tendon])
    shortest, longest = m.tendon_lengthspring[tendon]
    if stiffness and shortest != longest:
        return "springs that are slack between two lengths are not carried"
    (first, second), (start, end) = _ends(construction, tendon)
    if first is not second and (stiffness or damping):
        free = construction.free_name(name, "tendon")
        spring = SpringDamper(first, second, start, end, stiffness, damping, float(longest), name=free)
        construction.model.add(spring)
    return ""


def _is_straight(construction: Construction, tendon: int) -> bool:
    m = construction.start.compiled
    first, count = int(m.tendon_adr[tendon]), int(m.tendon_num[tendon])
    return count == 2 and bool(np.all(m.wrap_type[first : first + 2] == int(mujoco.mjtWrap.mjWRAP_SITE)))


def _ends(construction: Construction, tendon: int) -> tuple[list[Body], list[np.ndarray]]:
    """Bodies, and points in the inertial frame at the start."""
    m, data = construction.start.compiled, construction.start.data
    first = int(m.tendon_adr[tendon])
    sites = [int(site) for site in m.wrap_objid[first : first + 2]]
    return [construction.body(int(m.site_bodyid[s])) for s in sites], [data.site_xpos[s].copy() for s in sites]
