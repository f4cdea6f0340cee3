"""Which shapes the joints of a file can never bring together."""

from __future__ import annotations

import itertools

import numpy as np

from polhode.importers._mujoco import mujoco
from polhode.importers.collision_shapes import CollisionShape
from polhode.importers.construction import Construction


def can_meet(construction: Construction, first: CollisionShape, second: CollisionShape) -> bool:
    """Whether two shapes may touch for some angles of the joints between them.

    From the centre of one shape to that of the other a path leads over the anchors of the hinges and balls between
    their bodies. Each of its pieces lies in one body and keeps its length, so that the ends come no nearer than the
    longest one is longer than all others together. The bound holds for any angles; stops and loops only narrow them.
    """
    anchors = _anchors_between(construction, first, second)
    if anchors is None:
        return True
    ends = [_centre(one) for one in (first, second)]
    path = [ends[0], *anchors, ends[1]]
    pieces = [float(np.linalg.norm(b - a)) for a, b in itertools.pairwise(path)]
    nearest = 2 * max(pieces) - sum(pieces)
    return nearest <= float(first.shape.bounding_radius + second.shape.bounding_radius)


def _centre(one: CollisionShape) -> np.ndarray:
    return np.asarray(one.shape.pose_in(one.pose)[0])


def _anchors_between(
    construction: Construction, first: CollisionShape, second: CollisionShape
) -> list[np.ndarray] | None:
    """Anchors of the joints on the way between two bodies, in order; None where one of these joints shifts."""
    up, down = (_ancestors(construction, one) for one in (first, second))
    common = next(body for body in up if body in down)
    there, back = ([*itertools.takewhile(lambda body: body != common, way)] for way in (up, down))
    joints = [joint for body in there for joint in reversed(_joints(construction, body))]
    joints += [joint for body in reversed(back) for joint in _joints(construction, body)]
    m, data = construction.start.compiled, construction.start.data
    turning = {int(mujoco.mjtJoint.mjJNT_HINGE), int(mujoco.mjtJoint.mjJNT_BALL)}
    if any(int(m.jnt_type[joint]) not in turning for joint in joints):
        return None
    return [data.xanchor[joint].copy() for joint in joints]


def _ancestors(construction: Construction, one: CollisionShape) -> list[int]:
    """The number of a shape's body, of those that carry it, and of the world."""
    numbers = [number for number, body in construction.carriers.items() if body is one.body]
    start = construction.start
    while numbers[-1]:
        numbers.append(start.carrier(int(start.compiled.body_parentid[numbers[-1]])))
    return numbers


def _joints(construction: Construction, body: int) -> range:
    """The joints of a body, the one at its parent first."""
    m = construction.start.compiled
    return range(m.body_jntadr[body], m.body_jntadr[body] + m.body_jntnum[body])
