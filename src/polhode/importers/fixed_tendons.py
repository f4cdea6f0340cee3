"""Fixed tendons of MuJoCo, combinations of joint coordinates: springs, dampers, stops, dry friction."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax.numpy as jnp
import numpy as np

from polhode.forces.joint_forces import JointSpring, JointStops
from polhode.importers._mujoco import is_disabled, mujoco
from polhode.importers.construction import Construction
from polhode.importers.joints import FileJoint
from polhode.importers.limit_stops import Limit
from polhode.importers.losses import NotCarried
from polhode.joints.combination import Combination


def is_fixed(m: Any, tendon: int) -> bool:
    """Whether a tendon is a combination of joint coordinates."""
    return int(m.wrap_type[m.tendon_adr[tendon]]) == int(mujoco.mjtWrap.mjWRAP_JOINT)


def combination(m: Any, joints: Mapping[int, FileJoint], tendon: int) -> Combination | None:
    """A fixed tendon; None if one of its joints has no coordinate of its own. `joints`: by number."""
    rows = slice(int(m.tendon_adr[tendon]), int(m.tendon_adr[tendon] + m.tendon_num[tendon]))
    members = [joints[int(number)] for number in m.wrap_objid[rows]]
    return Combination(members, jnp.asarray(m.wrap_prm[rows])) if all(joint.measured for joint in members) else None


def add_fixed_tendons(construction: Construction, joints: Mapping[int, FileJoint], options: Any) -> list[NotCarried]:
    """Passive forces along fixed tendons; returns what could not be carried over."""
    m, start = construction.start.compiled, construction.start
    losses: dict[str, list[str]] = {}
    for tendon in range(m.ntendon):
        if is_fixed(m, tendon):
            name = start.name(mujoco.mjtObj.mjOBJ_TENDON, tendon)
            for why in _add(construction, joints, tendon, name, options):
                losses.setdefault(why, []).append(name)
    return [NotCarried("tendons", tuple(names), why) for why, names in losses.items()]


def _add(
    construction: Construction, joints: Mapping[int, FileJoint], tendon: int, name: str, options: Any
) -> list[str]:
    """Adds the forces of one tendon; returns what is not carried."""
    m = construction.start.compiled
    length = combination(m, joints, tendon)
    if length is None:
        return ["one of their joints has no coordinate of its own"]
    losses = []
    if np.any(m.tendon_stiffnesspoly[tendon]) or np.any(m.tendon_dampingpoly[tendon]) or m.tendon_springyield[tendon]:
        losses.append("of nonlinear springs and dampers only the linear coefficient is kept")
    if m.tendon_armature[tendon]:
        losses.append("they have no armature")
    stiffness = 0.0 if is_disabled(m, "spring") else float(m.tendon_stiffness[tendon])
    damping = 0.0 if is_disabled(m, "damper") else float(m.tendon_damping[tendon])
    _add_spring(construction, length, m.tendon_lengthspring[tendon], stiffness, damping, name)
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


def _stops(m: Any, tendon: int, length: Combination, name: str, rigid: bool) -> JointStops | str:
    """Stops at the ends of the range of a tendon, or why there are none."""
    about = m.tendon_range, m.tendon_margin, m.tendon_solref_lim, m.tendon_solimp_lim
    inertia = 1 / m.tendon_invweight0[tendon] if m.tendon_invweight0[tendon] > 0 else 0.0
    limit, title = Limit(*(values[tendon] for values in about)), f"{name} stops"
    rigid_stops = limit.rigid_stops(length, float(length.initial()), title) if rigid else None
    return limit.stops(length, inertia, title) if rigid_stops is None else rigid_stops


def _add_spring(
    construction: Construction, length: Combination, slack: Any, stiffness: float, damping: float, name: str
) -> None:
    """A spring that is slack between two lengths, which may be one, and a damper."""
    shortest, longest = map(float, slack)
    between = shortest < longest
    if stiffness and between:
        # A spring that acts beyond two lengths is a pair of undamped stops.
        spring = JointStops(length, (shortest, longest), stiffness, name=f"{name} spring")
        construction.model.add(spring)
    if damping or (stiffness and not between):
        name = f"{name} spring-damper"
        construction.model.add(JointSpring(length, 0.0 if between else stiffness, damping, longest, name=name))
