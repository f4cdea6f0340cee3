"""Tendons of MuJoCo, over joints or through sites: springs, dampers, stops, dry friction along their lengths."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from polhode.forces.joint_forces import JointSpring, JointStops
from polhode.importers import spatial_tendons
from polhode.importers._mujoco import is_disabled, mujoco
from polhode.importers.construction import Construction
from polhode.importers.joints import FileJoint
from polhode.importers.limit_stops import Limit
from polhode.importers.losses import NotCarried
from polhode.joints.combination import Combination
from polhode.joints.named_coordinates import AbstractMeasured
from polhode.joints.string_length import StringLength


def is_fixed(m: Any, tendon: int) -> bool:
    """Whether a tendon is a combination of joint coordinates."""
    return int(m.wrap_type[m.tendon_adr[tendon]]) == int(mujoco.mjtWrap.mjWRAP_JOINT)


def length_of(
    construction: Construction, joints: Mapping[int, FileJoint], tendon: int
) -> Combination | StringLength | str:
    """The length of a tendon; why it is not carried, or "" where it can't change. `joints`: by number."""
    m = construction.start.compiled
    if not is_fixed(m, tendon):
        return spatial_tendons.string_length(construction, tendon)
    rows = slice(int(m.tendon_adr[tendon]), int(m.tendon_adr[tendon] + m.tendon_num[tendon]))
    members = [joints[int(number)] for number in m.wrap_objid[rows]]
    if not all(joint.measured for joint in members):
        return "one of their joints has no coordinate of its own"
    return Combination(members, jnp.asarray(m.wrap_prm[rows]))


def add_tendons(construction: Construction, joints: Mapping[int, FileJoint], options: Any) -> list[NotCarried]:
    """Passive forces along tendons; returns what could not be carried over."""
    m, start = construction.start.compiled, construction.start
    losses: dict[str, list[str]] = {}
    for tendon in range(m.ntendon):
        name = start.name(mujoco.mjtObj.mjOBJ_TENDON, tendon)
        for why in _add(construction, joints, tendon, name, options):
            losses.setdefault(why, []).append(name)
    return [NotCarried("tendons", tuple(names), why) for why, names in losses.items()]


def _add(
    construction: Construction, joints: Mapping[int, FileJoint], tendon: int, name: str, options: Any
) -> list[str]:
    """Adds the forces of one tendon; returns what is not carried."""
    m = construction.start.compiled
    length = length_of(construction, joints, tendon)
    if isinstance(length, str):
        return [length] if length else []
    losses = []
    if np.any(m.tendon_stiffnesspoly[tendon]) or np.any(m.tendon_dampingpoly[tendon]) or m.tendon_springyield[tendon]:
        losses.append("of nonlinear springs and dampers only the linear coefficient is kept")
    if m.tendon_armature[tendon]:
        losses.append("they have no armature")
    _add_spring(construction, length, tendon, name)
    friction = float(m.tendon_frictionloss[tendon])
    part = None if is_disabled(m, "frictionloss") else options.friction(length, friction, f"{name} friction")
    if part is not None:
        construction.model.add(part)
    if options.limits and m.tendon_limited[tendon] and not is_disabled(m, "limit"):
        stops = _stops(m, tendon, length, name, options.rigid)
        if isinstance(stops, str):
            losses.append(stops)
        else:
            construction.model.add(stops)
    return losses


def _stops(m: Any, tendon: int, length: AbstractMeasured, name: str, rigid: bool) -> JointStops | str:
    """Stops at the ends of the range of a tendon, or why there are none."""
    about = m.tendon_range, m.tendon_margin, m.tendon_solref_lim, m.tendon_solimp_lim
    inertia = 1 / m.tendon_invweight0[tendon] if m.tendon_invweight0[tendon] > 0 else 0.0
    limit, title = Limit(*(values[tendon] for values in about)), f"{name} stops"
    rigid_stops = limit.rigid_stops(length, float(length.initial()), title) if rigid else None
    return limit.stops(length, inertia, title) if rigid_stops is None else rigid_stops


def _add_spring(construction: Construction, length: AbstractMeasured, tendon: int, name: str) -> None:
    """A spring that is slack between two lengths, which may be one, and a damper."""
    m = construction.start.compiled
    stiffness = 0.0 if is_disabled(m, "spring") else float(m.tendon_stiffness[tendon])
    damping = 0.0 if is_disabled(m, "damper") else float(m.tendon_damping[tendon])
    shortest, longest = map(float, m.tendon_lengthspring[tendon])
    between = shortest < longest
    if stiffness and between:
        # A spring that acts beyond two lengths is a pair of undamped stops.
        spring = JointStops(length, (shortest, longest), stiffness, name=f"{name} spring")
        construction.model.add(spring)
        stiffness = 0.0
    if not (stiffness or damping):
        return
    if not is_fixed(m, tendon) and spatial_tendons.is_straight(m, tendon):
        spatial_tendons.add_straight_spring(construction, tendon, longest, stiffness, damping, name)
    else:
        construction.model.add(JointSpring(length, stiffness, damping, longest, name=f"{name} spring-damper"))
