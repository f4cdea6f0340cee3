"""Points, axes and frames of joints, from the inertial frame at the start to the frames of bodies."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.multibody.bodies import SINGLE, Body
from polhode.multibody.mechanism.poses import Pose
from polhode.spaces.base import cross, norm
from polhode.spaces.rotation_input import SINGLE_PRECISION, orthogonality_defect, orthonormalise


def point_position(pose: Pose, s: Float[Array, "3"]) -> Float[Array, "3"]:
    """Position of a body-fixed point."""
    return pose.x + pose.R @ s


def to_body_frame(pose: Pose, point: Float[Array, "3"]) -> Float[Array, "3"]:
    """A point of the inertial frame in the frame of a body."""
    return pose.R.T @ (point - pose.x)


def initial_pose(body: Body) -> Pose:
    """Pose of a body at the initial time."""
    return Pose(body.x, body.R)


def point_on(body: Body, pose: Pose, value: Any, name: str = "point") -> Float[Array, "3"]:
    """A point given in the inertial frame, in the frame of a body; on a mass point it can only be the point itself."""
    s = to_body_frame(pose, checks.values(name, value, (3,), "in the inertial frame at the initial time"))
    if body.kind in SINGLE:
        raise ValueError(f"{short_repr(body)} is a single coordinate, not a place; `{name}` can't lie on it.")
    if body.kind == "point" and checks.is_concrete(s) and np.max(np.abs(np.asarray(s))) > 1e-9:
        raise ValueError(
            f"`{name}` is {np.asarray(s).tolist()} away from the mass point {short_repr(body)}, which can take no "
            "moment. Give the position of the mass point, or use a rigid body."
        )
    return s


def point_distance(first_point: Any, second_point: Any) -> Float[Array, ""]:
    """Distance of two points of the inertial frame, exactly 0 for equal ones."""
    return norm(jnp.asarray(second_point, dtype=float) - jnp.asarray(first_point, dtype=float))


def check_body(part: object, name: str, value: Any) -> None:
    """Raises ValueError for an end of a part that is no body."""
    if not isinstance(value, Body):
        raise ValueError(
            f"`{name}` of {type(part).__name__} must be a body, as `add_body` or `model.body(name)` return it, or "
            f"`model.ground`, got {short_repr(value)}."
        )


def check_distinct(part: object, first: Body, second: Body) -> None:
    """Raises ValueError if a part connects a body with itself, or anything but bodies."""
    check_body(part, "first", first)
    check_body(part, "second", second)
    if first is second:
        raise ValueError(f"{type(part).__name__} connects {short_repr(first)} with itself; give two different bodies.")


def check_has_rotation(body: Body, what: str) -> None:
    """Raises ValueError if `what` needs a rotation that the body lacks."""
    if body.kind not in ("rigid", "ground"):
        raise ValueError(
            f"{what} needs the rotation of {short_repr(body)}, which is a {body.kind}; use a rigid body there."
        )


def axis(name: str, value: Any) -> Float[Array, "3"]:
    """A direction of the inertial frame, divided by its length. Raises ValueError if it has none.

    Here and in `frame` results are NumPy's where nothing is traced: models may have thousands of joints.
    """
    direction = checks.values(name, value, (3,), "direction in the inertial frame at the initial time")
    if checks.is_concrete(value):
        # NumPy keeps numbers readable even while a surrounding function is being traced.
        largest = np.max(np.abs(np.asarray(value, dtype=float)))
    else:
        largest = jax.lax.stop_gradient(jnp.max(jnp.abs(direction)))
    if checks.is_concrete(largest) and not largest > 0:
        raise ValueError(f"`{name}` must be a direction, got the zero vector; its length doesn't matter.")
    # Squares of long and short vectors may be out of range.
    return _unit(direction / largest)


def frame(third: Float[Array, "3"]) -> Float[Array, "3 3"]:
    """A right-handed frame, one axis a row, with the last one given."""
    # The coordinate axis least aligned with it, as a constant: the choice is not differentiated.
    xp = _array_module(third)
    least = (xp.arange(3) == xp.argmin(xp.abs(third))).astype(third.dtype)
    first = _unit(least - third * (third @ least))
    return xp.stack((first, _cross(third, first) if xp is np else cross(third, first), third))


def _cross(a: Any, b: Any) -> np.ndarray:
    """The vector product. NumPy's takes ten times as long for so few numbers."""
    (a0, a1, a2), (b0, b1, b2) = a, b
    return np.array((a1 * b2 - a2 * b1, a2 * b0 - a0 * b2, a0 * b1 - a1 * b0))


def _unit(v: Float[Array, "3"]) -> Float[Array, "3"]:
    xp = _array_module(v)
    return v / xp.sqrt(xp.sum(v * v))


def _array_module(v: Any) -> Any:
    return np if isinstance(v, np.ndarray) else jnp


def axes(value: Any) -> Float[Array, "3 3"]:
    """Three axes as rows, perpendicular and right-handed to 1e-6, orthonormalised to round-off."""
    rows = checks.array("axes", value, (3, 3), "axes x, y, z of the joint as rows, in the inertial frame")
    if checks.is_concrete(value):
        matrix = np.asarray(value, dtype=float)
        defect = orthogonality_defect(matrix)
        if not defect < SINGLE_PRECISION or np.linalg.det(matrix) < 0:
            raise ValueError(
                f"`axes` must be unit vectors, perpendicular and right-handed, got {matrix.tolist()} "
                f"(defect {defect:.2g}, determinant {np.linalg.det(matrix):.2g})."
            )
        return jnp.asarray(orthonormalise(matrix))
    return rows
