"""Equality constraints of MuJoCo as exact constraints."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np

from polhode.forces.file_elements import ImportedJoint
from polhode.importers import spatial_tendons
from polhode.importers._mujoco import is_disabled, mujoco
from polhode.importers.construction import Construction, Frame
from polhode.importers.joints import FileJoint
from polhode.importers.losses import NotCarried
from polhode.importers.tendons import length_of
from polhode.joints._elements import FrameConstraint
from polhode.joints.coupling import CoupledJoints, Coupling
from polhode.joints.named_coordinates import AbstractMeasured
from polhode.spaces import quaternions

_EQ = mujoco.mjtEq
_TORQUE_SCALE = 10
"""Index of `torquescale` in the data of a weld."""


def add_equalities(construction: Construction, records: list[FileJoint]) -> list[NotCarried]:
    """Equalities of points, frames, joints and lengths; returns what could not be carried over."""
    m, start = construction.start.compiled, construction.start
    if is_disabled(m, "equality"):
        return []
    losses: list[NotCarried] = []
    for i in range(m.neq):
        name = start.name(mujoco.mjtObj.mjOBJ_EQUALITY, i)
        kind = _EQ(int(m.eq_type[i]))
        if not start.data.eq_active[i]:
            continue
        if kind in (_EQ.mjEQ_CONNECT, _EQ.mjEQ_WELD):
            _add_loop(construction, i, name, weld=kind == _EQ.mjEQ_WELD)
        elif kind == _EQ.mjEQ_JOINT:
            why = _add_coupling(construction, records, i, name)
            losses += [NotCarried("joint equality", (name,), why)] if why else []
        elif kind == _EQ.mjEQ_TENDON:
            straight = spatial_tendons.add_length(construction, i, name)
            why = "" if straight else _add_tendon(construction, records, i, name)
            losses += [NotCarried("tendon equality", (name,), why)] if why else []
        else:
            why = "only connect, weld, joint and tendon equalities are carried"
            losses.append(NotCarried(f"{kind.name.removeprefix('mjEQ_').lower()} equality", (name,), why))
    return losses


def _add_loop(construction: Construction, i: int, name: str, weld: bool) -> None:
    """A constraint of two frames: common origins, and for welds common directions."""
    numbers, frames = _ends(construction, i, weld)
    first, second = (construction.body(number) for number in numbers)
    if first is second:
        return
    (p0, R0), (p1, R1) = frames
    s0, s1 = construction.local(numbers[0], p0), construction.local(numbers[1], p1)
    a, b = np.zeros((0, 3)), np.zeros((0, 3))
    # A weld without torques is a ball joint.
    if weld and construction.start.compiled.eq_data[i, _TORQUE_SCALE]:
        a = -np.stack([construction.direction(numbers[0], R0[:, k]) for k in (1, 2, 0)])
        b = np.stack([construction.direction(numbers[1], R1[:, k]) for k in (2, 0, 1)])
    arrays = (s0, s1, np.zeros((0, 3)), a, b)
    construction.model.add(
        ImportedJoint(
            (first, second),
            FrameConstraint(*map(jnp.asarray, arrays), pinned=True),
            construction.free_name(name, "equality"),
        )
    )


def _ends(construction: Construction, i: int, weld: bool) -> tuple[list[int], list[Frame]]:
    """Numbers of the two MuJoCo bodies, and the frames on them that coincide, in the inertial frame."""
    start = construction.start
    m, data = start.compiled, start.data
    objects = [int(m.eq_obj1id[i]), int(m.eq_obj2id[i])]
    if m.eq_objtype[i] == mujoco.mjtObj.mjOBJ_SITE:
        frames = [Frame(data.site_xpos[s].copy(), data.site_xmat[s].reshape(3, 3).copy()) for s in objects]
        return [int(m.site_bodyid[s]) for s in objects], frames
    first, second = (start.pose(body) for body in objects)
    numbers = m.eq_data[i]
    # The anchor in the frames of the two bodies: welds have that of the second body first.
    anchors = (numbers[3:6], numbers[:3]) if weld else (numbers[:3], numbers[3:6])
    turn = _relative_rotation(numbers) if weld else np.eye(3)
    return objects, [
        Frame(first.x + first.R @ anchors[0], first.R @ turn),
        Frame(second.x + second.R @ anchors[1], second.R),
    ]


def _relative_rotation(numbers: np.ndarray) -> np.ndarray:
    """Rotation of the second body of a weld relative to the first."""
    return np.asarray(quaternions.to_matrix(jnp.asarray(numbers[6:10] / np.linalg.norm(numbers[6:10]))))


def _add_coupling(construction: Construction, records: list[FileJoint], i: int, name: str) -> str:
    """One joint coordinate as a polynomial of another; returns why it is not carried, or ""."""
    m = construction.start.compiled
    by_number = {r.number: r for r in records}
    numbers = [int(m.eq_obj1id[i]), int(m.eq_obj2id[i])]
    coefficients = np.array(m.eq_data[i, :5])
    if numbers[1] < 0:
        numbers[1], coefficients[1:] = numbers[0], 0
    follower, leader = (by_number[number] for number in numbers)
    if not (follower.measured and leader.measured):
        return "one of its joints is no hinge or slide with a coordinate of its own"
    zeros = [float(m.qpos0[m.jnt_qposadr[number]]) for number in numbers]
    _couple(construction, follower, leader, zeros, coefficients, name)
    return ""


def _couple(
    construction: Construction,
    follower: AbstractMeasured,
    leader: AbstractMeasured,
    zeros: Sequence[float],
    coefficients: np.ndarray,
    name: str,
) -> None:
    """A coordinate as a polynomial of another, both measured from `zeros`."""
    bodies = len(follower.bodies), len(follower.bodies) + len(leader.bodies)
    arrays = jnp.asarray(list(zeros)), jnp.asarray(coefficients)
    element = Coupling(follower.coordinate(), leader.coordinate(), *arrays, *bodies)
    part = CoupledJoints(
        follower,
        leader,
        (float(zeros[0]), float(zeros[1])),
        tuple(map(float, coefficients)),
        element,
        construction.free_name(name, "equality"),
    )
    construction.model.add(part)


def _add_tendon(construction: Construction, records: list[FileJoint], i: int, name: str) -> str:
    """The length of a tendon as a polynomial of that of another; returns why it is not carried, or ""."""
    m = construction.start.compiled
    by_number = {record.number: record for record in records}
    numbers = [int(m.eq_obj1id[i]), int(m.eq_obj2id[i])]
    coefficients = np.array(m.eq_data[i, :5])
    if numbers[1] < 0:
        numbers[1], coefficients[1:] = numbers[0], 0
    follower, leader = (length_of(construction, by_number, number) for number in numbers)
    for length in (follower, leader):
        if isinstance(length, str):
            return length or "there is no length between two bodies to hold"
    assert not isinstance(follower, str)
    assert not isinstance(leader, str)
    _couple(construction, follower, leader, [float(m.tendon_length0[number]) for number in numbers], coefficients, name)
    return ""
