"""Initial values of coupled joints: those that the user leaves out follow from those that are set."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from polhode.importers._mujoco import mujoco

_HINGE, _SLIDE = int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_SLIDE)


class _Equation(NamedTuple):
    """y - y₀ = p(x - x₀) between the coordinates of two joints, by their numbers; zeros (y₀, x₀)."""

    follower: int
    leader: int
    zeros: tuple[float, float]
    polynomial: np.polynomial.Polynomial

    @property
    def one_to_one(self) -> bool:
        """Whether the leader has one value for each of the follower."""
        _, slope, *higher = self.polynomial.coef
        return bool(slope) and not np.any(higher)


def place(model: Any, data: Any, positions: Mapping[str, Any], velocities: Mapping[str, Any]) -> None:
    """Set followers from their leaders, and leaders without a value from followers with one.

    Closing loops finds an angle from poses, up to full turns, but a follower may have to start some turns away.
    """
    equations = _equations(model)
    if not equations:
        return
    followers = {e.follower for e in equations}
    for values, rates in ((positions, False), (velocities, True)):
        names = {j for j in range(model.njnt) if mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, j) in values}
        _propagate(model, data, equations, names, rates)
        _propagate(model, data, equations, names | {e.leader for e in equations if e.leader not in followers}, rates)


def _propagate(model: Any, data: Any, equations: list[_Equation], solved: set[int], rates: bool) -> None:
    """Solve equations with one unknown until none is left; extends the set `solved`."""
    changed = True
    while changed:
        changed = False
        for e in equations:
            if (e.follower in solved) == (e.leader in solved) or (e.leader not in solved and not e.one_to_one):
                continue
            _solve(model, data, e, e.leader in solved, rates)
            solved |= {e.follower, e.leader}
            changed = True


def _solve(model: Any, data: Any, e: _Equation, forwards: bool, rates: bool) -> None:
    """Set the follower's value from the leader's, or the leader's from the follower's."""
    (y0, x0), (y, x) = e.zeros, (model.jnt_qposadr[e.follower], model.jnt_qposadr[e.leader])
    dy, dx = model.jnt_dofadr[e.follower], model.jnt_dofadr[e.leader]
    slope = e.polynomial.deriv()(data.qpos[x] - x0)
    if rates and forwards:
        data.qvel[dy] = slope * data.qvel[dx]
    elif rates:
        data.qvel[dx] = data.qvel[dy] / slope
    elif forwards:
        data.qpos[y] = y0 + e.polynomial(data.qpos[x] - x0)
    else:
        data.qpos[x] = x0 + (data.qpos[y] - y0 - e.polynomial(0.0)) / slope


def _equations(model: Any) -> list[_Equation]:
    """The active joint equations between two hinges or slides."""
    equations = []
    for i in range(model.neq):
        joints = int(model.eq_obj1id[i]), int(model.eq_obj2id[i])
        if model.eq_type[i] != mujoco.mjtEq.mjEQ_JOINT or not model.eq_active0[i] or joints[1] < 0:
            continue
        if all(int(model.jnt_type[j]) in (_HINGE, _SLIDE) for j in joints):
            y0, x0 = (float(model.qpos0[model.jnt_qposadr[j]]) for j in joints)
            equations.append(_Equation(*joints, (y0, x0), np.polynomial.Polynomial(np.array(model.eq_data[i, :5]))))
    return equations
