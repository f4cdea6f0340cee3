"""Compiles model files with MuJoCo and sets initial positions and velocities."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.importers import followers
from polhode.importers._mujoco import mujoco
from polhode.importers.compiled_model import CompiledModel, ReadOptions
from polhode.importers.construction import Start
from polhode.importers.mesh_files import Finder
from polhode.importers.sources import Source

_OBJECTS = {
    "body": mujoco.mjtObj.mjOBJ_BODY,
    "jnt": mujoco.mjtObj.mjOBJ_JOINT,
    "site": mujoco.mjtObj.mjOBJ_SITE,
    "tendon": mujoco.mjtObj.mjOBJ_TENDON,
    "actuator": mujoco.mjtObj.mjOBJ_ACTUATOR,
    "eq": mujoco.mjtObj.mjOBJ_EQUALITY,
}
"""Prefixes of the arrays of a compiled model, and the objects of their rows."""


def compile_source(source: Source, finder: Finder, options: ReadOptions) -> CompiledModel:
    """A source compiled by MuJoCo. Raises ValueError with the reader's message, and a remedy where there is one."""
    try:
        compiled = source.format.reader().read(source, finder, options)
    except ValueError as error:
        raise ValueError(_explain(source, " ".join(str(error).split()))) from error
    step = compiled.model.opt.timestep
    if not step > 0:
        raise ValueError(f"{source.label}: `timestep` of <option> must be greater than zero, it is {step:g}.")
    _check_finite(compiled.model, source.label)
    return compiled


def _check_finite(model: Any, label: str) -> None:
    """Raises ValueError for non-finite numbers, which MuJoCo accepts."""
    for prefix, kind in _OBJECTS.items():
        for name in (name for name in dir(model) if name.startswith(f"{prefix}_")):
            values = np.asarray(getattr(model, name))
            if values.dtype.kind != "f" or not values.size or name.endswith("invweight0"):
                continue
            # Ranges may be infinite.
            wrong = np.isnan(values) if name.endswith("range") else ~np.isfinite(values)
            if np.any(wrong):
                number = int(np.argwhere(wrong)[0, 0])
                name_of = mujoco.mj_id2name(model, kind, number) or f"number {number}"
                what = kind.name.removeprefix("mjOBJ_").lower()
                raise ValueError(
                    f"{label}: `{name.partition('_')[2]}` of {what} `{name_of}` must be finite, got "
                    f"{short_repr(values[number])}."
                )


def _explain(source: Source, message: str) -> str:
    body = re.search(r"Element name '([^']*)'", message)
    if "mass and inertia of moving bodies" in message and body:
        return (
            f"{source.label}: `{body[1]}` moves but has no mass or no inertia, alone and with all that is fixed to "
            "it. Give it a mass and an inertia, or make its joint a fixed one."
        )
    if "A + B >= C" in message:
        message += " Correct the inertia, or read the file with check_inertia=False."
    return f"{source.label} can't be read: {message}"


def build_start(
    compiled: CompiledModel,
    keyframe: str | int | None,
    positions: Mapping[str, Any],
    velocities: Mapping[str, Any],
) -> Start:
    """A compiled model at a keyframe or its defaults, with the given joint positions and velocities."""
    model, positions = compiled.model, {**compiled.positions, **positions}
    data = mujoco.MjData(model)
    if keyframe is not None:
        mujoco.mj_resetDataKeyframe(model, data, _keyframe(model, keyframe))
    for name, value in positions.items():
        joint = _joint(model, name)
        _assign(data.qpos, model.jnt_qposadr[joint], (7, 4, 1, 1)[model.jnt_type[joint]], name, "position", value)
    for name, value in velocities.items():
        joint = _joint(model, name)
        _assign(data.qvel, model.jnt_dofadr[joint], (6, 3, 1, 1)[model.jnt_type[joint]], name, "velocity", value)
    followers.place(model, data, positions, velocities)
    mujoco.mj_normalizeQuat(model, data.qpos)
    mujoco.mj_kinematics(model, data)
    mujoco.mj_comPos(model, data)
    mujoco.mj_comVel(model, data)
    return Start(model, data, compiled.inertials)


def _assign(values: np.ndarray, at: int, size: int, name: str, what: str, value: Any) -> None:
    try:
        numbers = np.atleast_1d(np.asarray(value, dtype=float))
    except (TypeError, ValueError) as error:
        raise ValueError(f"The {what} of joint `{name}` must be numeric, got {short_repr(value)}.") from error
    if numbers.shape != (size,) or not np.isfinite(numbers).all():
        raise ValueError(f"The {what} of joint `{name}` takes {size} finite number(s), got {short_repr(value)}.")
    if what == "position" and size > 1 and not np.linalg.norm(numbers[-4:]) > 0:
        raise ValueError(f"The position of joint `{name}` ends in a quaternion (w, x, y, z), which can't be zero.")
    values[at : at + size] = numbers


def _joint(model: Any, name: str) -> int:
    return _number(model, mujoco.mjtObj.mjOBJ_JOINT, model.njnt, name, "joint")


def _keyframe(model: Any, key: str | int) -> int:
    if isinstance(key, int) and 0 <= key < model.nkey:
        return key
    return _number(model, mujoco.mjtObj.mjOBJ_KEY, model.nkey, str(key), "keyframe")


def _number(model: Any, kind: Any, count: int, name: str, what: str) -> int:
    names: Sequence[str] = [mujoco.mj_id2name(model, kind, i) or f"{what}-{i}" for i in range(count)]
    if name in names:
        return names.index(name)
    hint = f"Known: {', '.join(names)}." if names else "It has none."
    raise ValueError(f"There is no {what} `{name}`.{checks.nearest(name, names)} {hint}")
