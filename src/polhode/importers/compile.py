"""Compiles model files with MuJoCo and sets initial positions and velocities."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.importers import assets, followers, urdf
from polhode.importers._mujoco import mujoco
from polhode.importers.assets import OmittedAssets
from polhode.importers.construction import MASSLESS, Inertial, Start, from_principal_moments
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


class CompiledModel(NamedTuple):
    """A `mujoco.MjModel`, and inertials that replace its own, by the numbers of bodies.

    - `unread`: files that were not read, each with the reason.
    - `unseen`: numbers of geoms whose shape is missing for that reason.
    """

    model: Any
    inertials: Mapping[int, Inertial]
    unread: tuple[str, ...] = ()
    unseen: frozenset[int] = frozenset()


def compile_source(source: Source, floating: bool, check_inertia: bool, finder: Finder) -> CompiledModel:
    """A source compiled by MuJoCo. Raises ValueError with MuJoCo's message, and a remedy where there is one."""
    try:
        compiled = _robot(source, floating) if source.is_robot else _mjcf(source, floating, check_inertia, finder)
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


def _robot(source: Source, floating: bool) -> CompiledModel:
    assert source.root is not None
    robot = urdf.build_spec(source.root, floating)
    model = robot.compile()
    names = {number: mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, number) for number in range(1, model.nbody)}
    return CompiledModel(model, {number: robot.inertials.get(name, MASSLESS) for number, name in names.items()})


def _mjcf(source: Source, floating: bool, check_inertia: bool, finder: Finder) -> CompiledModel:
    if floating:
        raise ValueError("`floating` is for URDF, which can't say it; in MJCF give the body a <freejoint/>.")
    spec, withdrawn = _build_spec(source, finder)
    try:
        return _compiled_model(spec.compile(), {}, withdrawn)
    except ValueError as error:
        if check_inertia or "inertia" not in str(error):
            raise
    # MuJoCo refuses the masses of some bodies: it gets placeholders, and those of the file are used.
    spec, withdrawn = _build_spec(source, finder)
    aside = [(body, _set_aside(body)) for body in spec.bodies if body.explicitinertial]
    model = spec.compile()
    return _compiled_model(model, {body.id: inertial(model.body_iquat[body.id]) for body, inertial in aside}, withdrawn)


def _build_spec(source: Source, finder: Finder) -> tuple[Any, OmittedAssets]:
    spec = source.build_spec()
    # A specification of the user has the paths that the user set.
    return spec, OmittedAssets() if source.specification is not None else assets.resolve_files(spec, finder)


def _compiled_model(model: Any, inertials: Mapping[int, Inertial], withdrawn: OmittedAssets) -> CompiledModel:
    return CompiledModel(model, inertials, withdrawn.files, frozenset(int(geom.id) for geom in withdrawn.geoms))


def _set_aside(body: Any) -> Callable[[np.ndarray], Inertial]:
    """Replaces a body's inertial by one that MuJoCo accepts; returns its own as a function of the principal axes."""
    mass, centre, moments, full = (
        float(body.mass),
        np.nan_to_num(body.ipos),
        body.inertia.copy(),
        body.fullinertia.copy(),
    )
    body.mass = 1.0
    if np.isnan(full[0]):
        body.inertia = np.ones(3)
        return lambda quaternion: from_principal_moments(mass, centre, quaternion, moments)
    body.fullinertia = np.array([1.0, 1.0, 1.0, 0.0, 0.0, 0.0])
    xx, yy, zz, xy, xz, yz = full
    matrix = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    return lambda _: Inertial(mass, centre, matrix)


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
    model = compiled.model
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
