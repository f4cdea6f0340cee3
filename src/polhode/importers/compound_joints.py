"""Conversion of the successive joints of one MuJoCo body into a joint between two bodies."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode import joints
from polhode.forces.file_elements import CompoundJoint, HingedBall
from polhode.importers.construction import Construction
from polhode.importers.joint_chain import BALL, FREE, HINGE, SLIDE, JointChain
from polhode.importers.tilt_coordinate import Tilt
from polhode.joints._elements import FrameConstraint
from polhode.joints.relative import AbstractRelativeCoordinate, Angle, Displacement, ReversedCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.coordinates.tree.motions import (
    AbstractJointMotion,
    AxisMotion,
    BallMotion,
    CrossMotion,
    HingesMotion,
)
from polhode.multibody.mechanism.poses import ORIGIN, Pose
from polhode.multibody.parts import AbstractJoint

_PARALLEL = 1e-9
"""Sine below which axes count as parallel, cosine below which as perpendicular."""

_ORDINALS = ("first", "second", "third")


class ConvertedChain(NamedTuple):
    """A joint chain converted to a joint of the model.

    - `part`: the joint; None if all motions are free.
    - `coordinates`: number of a hinge or slide → its coordinate, for poses of (parent, child); joints whose coordinate
      is not a function of the two poses are missing.
    """

    part: AbstractJoint | None
    coordinates: dict[int, AbstractRelativeCoordinate]


def split(construction: Construction, chain: JointChain) -> list[JointChain]:
    """The chain split into parts that are joints between two bodies, with massless bodies in between."""
    chains, first, total = [], 0, len(chain.numbers)
    parent = chain.parent
    while first < total:
        last = next((k for k in range(total, first + 1, -1) if _is_joint(chain, first, k)), first + 1)
        child = chain.child if last == total else construction.add_between(chain.body, chain.numbers[:last])
        chains.append(chain.part(first, last, parent, child))
        first, parent = last, child
    return chains


def _is_joint(chain: JointChain, first: int, last: int) -> bool:
    """Whether part of a chain is a joint between two bodies."""
    try:
        convert(chain.part(first, last, chain.parent, chain.child), "")
    except ValueError:
        return False
    return True


def convert(chain: JointChain, name: str) -> ConvertedChain:
    """The joint with the same freedoms as the chain. Raises ValueError if there is none."""
    hinges, slides, balls = chain.places(HINGE), chain.places(SLIDE), chain.places(BALL)
    if chain.places(FREE):
        return ConvertedChain(None, {})
    if len(balls) > 1 or (balls and hinges) or len(hinges) > 3 or len(slides) > 3:
        raise _conversion_error(chain, "they have more degrees of freedom than a body has, or count one twice")
    _check_independent(chain, slides, "slides")
    _check_independent(chain, hinges, "hinges")
    in_child = _slides_with_child(chain, hinges or balls, slides)
    centre = _centre(chain, hinges or balls)
    coordinates = _slide_coordinates(chain, slides, centre, in_child) | _hinge_coordinates(chain, hinges)
    if len(coordinates) < len(hinges) + len(slides):
        raise _conversion_error(chain, "the angles of its three hinges are none of two rotations")
    if len(hinges) == len(chain.numbers) and _turn_with_inertia(chain, hinges):
        return ConvertedChain(HingedBall(chain.parent, chain.child, centre, chain.axes, name), coordinates)
    return ConvertedChain(_part(chain, name, hinges, slides, balls, centre, in_child), coordinates)


def coordinate_name(part: AbstractJoint | None, chain: JointChain, place: int) -> str | None:
    """Name of the coordinate of a hinge or slide in a part that has several of a kind; None for the usual one."""
    has_names = isinstance(part, joints.Universal | HingedBall | CompoundJoint)
    return _coordinate_name(chain, place) if has_names and chain.kinds[place] in (HINGE, SLIDE) else None


def _part(
    chain: JointChain,
    name: str,
    hinges: Sequence[int],
    slides: Sequence[int],
    balls: Sequence[int],
    centre: np.ndarray,
    in_child: bool,
) -> AbstractJoint | None:
    ends, axes = (chain.parent, chain.child), chain.axes
    match len(hinges) + 3 * len(balls), len(slides):
        case 1, 0:
            return joints.Revolute(*ends, point=centre, axis=axes[hinges[0]], name=name)
        case 2, 0:
            return joints.Universal(*ends, centre, axes[hinges[0]], axes[hinges[1]], name=name)
        case 3, 0:
            return joints.Spherical(*ends, point=centre, name=name)
        case 0, 1:
            return joints.Prismatic(*ends, axis=axes[slides[0]], name=name)
        case 1, 1 if np.linalg.norm(axes[hinges[0]] - axes[slides[0]]) < _PARALLEL:
            return joints.Cylindrical(*ends, point=centre, axis=axes[hinges[0]], name=name)
        # Displacements in a plane are no coordinates with names, along which inertias could be.
        case 1, 2 if np.max(np.abs(axes[slides] @ axes[hinges[0]])) < _PARALLEL and not any(chain.armatures[slides]):
            return joints.Planar(*ends, normal=axes[hinges[0]], point=centre, name=name)
        case 3, 3:
            return None
    # Directions without slides are fixed in the body that carries the slides.
    carrier, other = (ends[::-1]) if in_child else ends
    across = _complement(axes[list(slides)])
    rotation_axes = [axes[i] for i in (hinges[::-1] if in_child else hinges)]
    a, b = _locked_axes(rotation_axes, bool(balls))
    R0, R1 = np.asarray(carrier.R), np.asarray(other.R)
    arrays = (_local(carrier, centre), _local(other, centre), across @ R0, a @ R0, b @ R1)
    attitude, rotation = _rotation(chain, hinges, balls)
    return CompoundJoint(
        (carrier, other),
        FrameConstraint(*map(jnp.asarray, arrays), pinned=False),
        name,
        child=chain.child,
        frame=Pose(jnp.asarray(centre), jnp.asarray(attitude)),
        rotation=rotation,
        slide_axes=jnp.asarray(axes[list(slides)] @ attitude),
        slide_names=tuple(_coordinate_name(chain, place) for place in slides),
        turn_along=in_child,
    )


def _rotation(chain: JointChain, hinges: Sequence[int], balls: Sequence[int]) -> tuple[np.ndarray, AbstractJointMotion]:
    """Attitude of a frame, and the motion of the child in it by its hinges or its ball alone."""
    axes, R = chain.axes[list(hinges)], np.asarray(chain.child.R)
    match len(hinges) + 3 * len(balls):
        case 0:
            return R, AxisMotion(ORIGIN, turns=False, slides=())
        case 1:
            across = _complement(axes)[0]
            return np.stack((across, np.cross(axes[0], across), axes[0]), axis=1), AxisMotion(ORIGIN, True, ())
        case 2:
            names = tuple(_coordinate_name(chain, place) for place in hinges)
            return np.stack((axes[0], np.cross(axes[1], axes[0]), axes[1]), axis=1), CrossMotion(ORIGIN, names)
        case _:
            inert = _turn_with_inertia(chain, hinges)
            return R, HingesMotion(ORIGIN, jnp.asarray(axes @ R)) if inert else BallMotion(ORIGIN)


def _turn_with_inertia(chain: JointChain, hinges: Sequence[int]) -> bool:
    """Whether angles of three hinges have inertia even where the first and the third axis are parallel."""
    return len(hinges) == 3 and chain.armatures[hinges[0]] + chain.armatures[hinges[2]] > 0


def _coordinate_name(chain: JointChain, place: int) -> str:
    """Name of the coordinate of a hinge or slide in a part of the model that has all joints of the chain."""
    alike = chain.places(chain.kinds[place])
    kind = "angle" if chain.kinds[place] == HINGE else "displacement"
    return kind if len(alike) == 1 else f"{_ORDINALS[alike.index(place)]}_{kind}"


def _locked_axes(hinges: Sequence[np.ndarray], ball: bool) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of axes of the first and the second body that stay perpendicular, each (r, 3), as in `FrameConstraint`."""
    if ball or len(hinges) == 3:
        return np.zeros((0, 3)), np.zeros((0, 3))
    if len(hinges) == 2:
        return -hinges[0][None], hinges[1][None]
    if len(hinges) == 1:
        across = _complement(hinges[0][None])[0]
        return np.stack((across, np.cross(hinges[0], across))), np.stack(2 * (hinges[0],))
    return -np.eye(3)[[1, 2, 0]], np.eye(3)[[2, 0, 1]]


def _slides_with_child(chain: JointChain, rotations: Sequence[int], slides: Sequence[int]) -> bool:
    """Whether the slides turn with the child. Raises ValueError if only some of them do."""
    if not rotations or not slides:
        return False
    sides = set()
    for s in slides:
        if len(rotations) == 1 and chain.kinds[rotations[0]] == HINGE:
            axis = chain.axes[rotations[0]]
            if _sine(chain.axes[s], axis) < _PARALLEL:
                continue
        if rotations[0] < s < rotations[-1]:
            raise _conversion_error(chain, "a slide stands between two hinges")
        sides.add(s > rotations[0])
    if len(sides) > 1:
        raise _conversion_error(chain, "slides stand before and after a hinge that turns them")
    return sides == {True}


def _centre(chain: JointChain, rotations: Sequence[int]) -> np.ndarray:
    """The point where all hinges meet; the centre of mass of the child without hinges."""
    if not rotations:
        return np.asarray(chain.child.x)
    centre = chain.anchors[rotations[0]]
    if len(rotations) > 1:
        # The point nearest to all axes: Σ (1 - aaᵀ)(c - p) = 0.
        across = np.stack([np.eye(3) - np.outer(a, a) for a in chain.axes[list(rotations)]])
        offsets = chain.anchors[list(rotations)] - centre
        shift = np.linalg.solve(np.sum(across, axis=0), np.einsum("nij,nj->i", across, offsets))
        gaps = np.einsum("nij,nj->ni", across, shift - offsets)
        scale = max(1.0, float(np.max(np.abs(chain.anchors))))
        if np.max(np.abs(gaps)) > 1e-9 * scale:
            raise _conversion_error(chain, "the axes of its hinges don't meet in a point")
        centre = centre + shift
        if len(rotations) == 2 and abs(chain.axes[rotations[0]] @ chain.axes[rotations[1]]) > 1e-8:
            raise _conversion_error(chain, "its two hinges are not perpendicular")
    return centre


def _slide_coordinates(
    chain: JointChain, slides: Sequence[int], centre: np.ndarray, in_child: bool
) -> dict[int, AbstractRelativeCoordinate]:
    if not slides:
        return {}
    # Each coordinate is measured along the vector dual to its axis, so that it is independent of the others.
    dual = np.linalg.pinv(chain.axes[list(slides)]).T
    here, there = (chain.child, chain.parent) if in_child else (chain.parent, chain.child)
    sign = -1.0 if in_child else 1.0
    coordinates: dict[int, AbstractRelativeCoordinate] = {}
    for s, d in zip(slides, dual, strict=True):
        zero = centre - sign * chain.values[s] * d / (d @ d)
        arrays = (_local_direction(here, d), _local(here, zero), _local(there, centre))
        along = Displacement(*map(jnp.asarray, arrays))
        coordinates[chain.numbers[s]] = ReversedCoordinate(along) if in_child else along
    return coordinates


def _hinge_coordinates(chain: JointChain, hinges: Sequence[int]) -> dict[int, AbstractRelativeCoordinate]:
    """Angles of one hinge, of two, or of three with perpendicular neighbours; empty otherwise."""
    if not hinges:
        return {}
    axes = chain.axes[list(hinges)]
    numbers, values = [chain.numbers[i] for i in hinges], [chain.values[i] for i in hinges]
    if len(hinges) == 1:
        return {numbers[0]: _angle(chain, axes[0], _complement(axes)[0], values[0], of_child=False)}
    first = _angle(chain, axes[0], axes[-1], values[0], of_child=False)
    last = _angle(chain, axes[-1], axes[0], values[-1], of_child=True)
    if len(hinges) == 2:
        return {numbers[0]: first, numbers[1]: last}
    perpendicular = abs(axes[0] @ axes[1]) < 1e-8 and abs(axes[1] @ axes[2]) < 1e-8
    # Before the middle hinge turns, the third axis is along the first one crossed with the second.
    untilted = _rotate(axes[2], axes[1], -values[1])
    if not perpendicular or abs(axes[0] @ untilted) > 1e-8 or abs(values[1]) >= np.pi / 2:
        return {}
    sign = np.sign(np.cross(axes[1], untilted) @ axes[0])
    tilt = Tilt(
        *map(jnp.asarray, (_local_direction(chain.parent, axes[0]), _local_direction(chain.child, axes[2]), sign))
    )
    return {numbers[0]: first, numbers[1]: tilt, numbers[2]: last}


def _angle(
    chain: JointChain, axis: np.ndarray, pointer: np.ndarray, value: float, of_child: bool
) -> AbstractRelativeCoordinate:
    """Angle about an axis of one body of a direction `pointer` of the other; `value` at the start."""
    across = pointer - axis * (axis @ pointer)
    sign = -1.0 if of_child else 1.0
    e1 = _rotate(across / np.linalg.norm(across), axis, -sign * value)
    here, there = (chain.child, chain.parent) if of_child else (chain.parent, chain.child)
    arrays = (_local_direction(here, e1), _local_direction(here, np.cross(axis, e1)), _local_direction(there, pointer))
    angle = Angle(*map(jnp.asarray, arrays))
    return ReversedCoordinate(angle) if of_child else angle


def _local(body: Body, point: np.ndarray) -> np.ndarray:
    return np.asarray(body.R).T @ (point - np.asarray(body.x))


def _local_direction(body: Body, vector: np.ndarray) -> np.ndarray:
    return np.asarray(body.R).T @ vector


def _rotate(vector: np.ndarray, axis: np.ndarray, angle: float) -> np.ndarray:
    """`vector` rotated by `angle` about a unit `axis` (Rodrigues' formula)."""
    along = axis * (axis @ vector)
    return along + np.cos(angle) * (vector - along) + np.sin(angle) * np.cross(axis, vector)


def _check_independent(chain: JointChain, members: Sequence[int], what: str) -> None:
    if members and np.linalg.svd(chain.axes[list(members)], compute_uv=False)[-1] < 1e-6 * (len(members) > 1):
        raise _conversion_error(chain, f"the axes of its {what} are dependent at the start")


def _complement(axes: np.ndarray) -> np.ndarray:
    """Unit vectors perpendicular to all rows, shape (3 - rank, 3)."""
    return np.linalg.svd(axes.reshape(-1, 3))[2][len(axes) :]


def _sine(a: np.ndarray, b: np.ndarray) -> float:
    return float(np.linalg.norm(np.cross(a, b)))


def _conversion_error(chain: JointChain, why: str) -> ValueError:
    return ValueError(
        f"The {len(chain.numbers)} joints of body `{chain.name}` are no joint between two bodies: {why}. Put another "
        "body with a small mass and inertia between them, and give each of the two its part of the joints."
    )
