"""Contents of a model file that affect its motion and are not carried over, each with the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import numpy as np

from polhode.importers._mujoco import is_disabled, mujoco
from polhode.importers.construction import Start
from polhode.printable import printable

_OBJ = mujoco.mjtObj
PASS_THROUGH = "bodies pass through each other; load_model(…, contacts=True) and floor=True let them touch"


@dataclasses.dataclass(frozen=True)
class NotCarried:
    """Something in a file that affects the motion in its own simulator and is not in the model.

    - `what`, `names`: the kind of thing, and which ones.
    - `reason`: why, and the consequence.
    """

    what: str
    names: tuple[str, ...]
    reason: str

    def __str__(self) -> str:
        members = ", ".join(self.names[:6]) + (f" and {len(self.names) - 6} more" if len(self.names) > 6 else "")
        return printable(f"{self.what} ({members}): {self.reason}" if self.names else f"{self.what}: {self.reason}")


def model_losses(start: Start) -> list[NotCarried]:
    """Losses in the compiled model, besides those that joints, loads and equalities report."""
    return [item for item in (*_joint_losses(start), *_environment_losses(start)) if item]


def _joint_losses(start: Start) -> Iterable[NotCarried | None]:
    m = start.compiled
    reason = "only the linear coefficient is kept"
    nonlinear = np.any(m.jnt_stiffnesspoly != 0, axis=1) | (m.jnt_springyield != 0)
    yield _not_carried(start, _OBJ.mjOBJ_JOINT, nonlinear, "nonlinear joint springs", reason)
    nonlinear = _by_joint(m, np.any(m.dof_dampingpoly != 0, axis=1))
    yield _not_carried(start, _OBJ.mjOBJ_JOINT, nonlinear, "nonlinear joint damping", reason)
    reason = "the compensation of gravity doesn't count among the forces that they limit"
    compensated = (m.jnt_actgravcomp != 0) & (m.jnt_actfrclimited != 0) & np.any(m.body_gravcomp)
    yield _not_carried(start, _OBJ.mjOBJ_JOINT, compensated, "effort limits with compensation of gravity", reason)


def _environment_losses(start: Start) -> Iterable[NotCarried | None]:
    m = start.compiled
    colliding = (m.geom_contype != 0) | (m.geom_conaffinity != 0)
    if not is_disabled(m, "contact") and (np.count_nonzero(colliding) > 1 or m.npair):
        yield _not_carried(start, _OBJ.mjOBJ_GEOM, colliding, "contacts", PASS_THROUGH)
    yield _not_carried(start, _OBJ.mjOBJ_FLEX, np.ones(m.nflex), "flexible bodies", "there is no such element")
    if m.nplugin:
        yield NotCarried("plugins", (), f"{m.nplugin} of them run only in MuJoCo")
    if m.opt.density or m.opt.viscosity:
        yield NotCarried("fluid", (), "bodies move in a vacuum")


def _not_carried(start: Start, kind: Any, which: np.ndarray, what: str, reason: str) -> NotCarried | None:
    numbers = np.flatnonzero(which)
    if not len(numbers):
        return None
    return NotCarried(what, tuple(start.name(kind, int(i)) for i in numbers), reason)


def _by_joint(m: Any, of_dofs: np.ndarray) -> np.ndarray:
    """Which joints have a degree of freedom with the property."""
    mask = np.zeros(m.njnt, dtype=bool)
    mask[m.dof_jntid[of_dofs]] = True
    return mask
