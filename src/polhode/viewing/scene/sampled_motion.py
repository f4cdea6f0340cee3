"""Poses of a scene's parts over a run, sampled for display."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from polhode.compiler.batched_function import BatchedFunction
from polhode.systems.base import State
from polhode.viewing.scene.scene import Arrows, Body, Cloud, Line, Scene, Trail

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_MOST_FRAMES = 1500
_FEWEST_FRAMES = 40
_MOST_NUMBERS = 1_500_000
_MOST_SPHERES = 12_000_000
"""Largest number of coordinates of spheres over all frames; beyond that, some spheres are left out."""
_BLOCK = 64
"""Frames that XLA evaluates at once; fixed, so that a growing run needs one program."""


@dataclasses.dataclass(frozen=True)
class Motion:
    """Poses and points of all parts of a scene at k sampled frames.

    - `t`: (k,), increasing; `rows`: numbers of these frames in the run.
    - `positions`, `quaternions`: of the pose of each body, (k, 3) and (k, 4); quaternions (w, x, y, z) without jumps
      of sign. Bodies that share their pose share the arrays.
    - `lines`: one array (k, points, 3) a line; `tints`: one array (k, segments, kinds) a line, or None.
    - `trails`: one array (k, 3) a trail.
    - `clouds`: one array (k, spheres, 3) a cloud, of every `strides`-th sphere.
    - `arrows`: feet and vectors (k, n, 3) of each set.
    """

    t: np.ndarray
    rows: np.ndarray
    positions: list[np.ndarray]
    quaternions: list[np.ndarray]
    lines: list[np.ndarray]
    tints: list[np.ndarray | None]
    trails: list[np.ndarray]
    clouds: list[np.ndarray]
    strides: list[int]
    arrows: list[tuple[np.ndarray, np.ndarray]]

    def bounds(self, scene: Scene) -> tuple[np.ndarray, float, float]:
        """Centre and radius of a sphere around the whole motion, and the height of its lowest place along `up`."""
        up = np.asarray(scene.up, dtype=float)
        up = up / np.linalg.norm(up)
        clouds = [(points.reshape(-1, 3), 0.0) for points in (*self.lines, *self.trails)]
        floors = [float(np.min(points @ up)) for points, _ in clouds]
        for cloud, places in zip(scene.of(Cloud), self.clouds, strict=True):
            half = float(np.max(cloud.diameters)) / 2
            # A few outliers, such as thrown sand, don't shrink the rest.
            low, high = np.quantile(places.reshape(-1, 3), [0.002, 0.998], axis=0)
            clouds.append((np.stack([low, high]), half))
            floors.append(float(np.quantile(places.reshape(-1, 3) @ up, 0.002)) - half)
        for body, x, q in zip(scene.of(Body), self.positions, self.quaternions, strict=True):
            if not body.framed:
                continue
            places, half = x + rotate(q, np.asarray(body.at)), np.asarray(body.size) / 2
            clouds.append((places, float(np.linalg.norm(half))))
            # Along a direction n of its frame a box reaches as far as |n| · half, an ellipsoid |n ∘ half|.
            across = rotate(q * [1.0, -1.0, -1.0, -1.0], up) @ np.asarray(body.turn)
            depth = np.linalg.norm(across * half, axis=1) if body.shape == "ellipsoid" else np.abs(across) @ half
            floors.append(float(np.min(places @ up - depth)))
        low = np.min([np.min(points, axis=0) - r for points, r in clouds], axis=0)
        high = np.max([np.max(points, axis=0) + r for points, r in clouds], axis=0)
        centre = (low + high) / 2
        radius = max(float(np.max(np.linalg.norm(points - centre, axis=-1))) + r for points, r in clouds)
        return centre, radius, min(floors) if scene.floor is None else scene.floor


def sample(scene: Scene, solution: Run, most: int | None = None) -> Motion:
    """The motion at a bounded number of frames, or at most `most`, evenly spread over time."""
    bodies, lines, trails = scene.of(Body), scene.of(Line), scene.of(Trail)
    clouds, arrows = scene.of(Cloud), scene.of(Arrows)
    # Parts of one body share its pose, which is evaluated once.
    poses_by_id = {id(body.pose): body.pose for body in bodies}
    spheres = sum(len(cloud.diameters) for cloud in clouds)
    rows = _choose(np.asarray(solution.t), 7 * len(poses_by_id) + 12 * len(lines) + 3 * len(trails), 3 * spheres, most)
    strides = [-(-3 * spheres * min(len(rows), _FEWEST_FRAMES) // _MOST_SPHERES) for _ in clouds]
    t = np.asarray(solution.t)[rows]
    source = dict(solution.outputs) if scene.reads == "outputs" else solution.state
    state = jax.tree.map(lambda x: np.asarray(x)[rows], source)
    parts = _Parts(
        tuple(poses_by_id.values()),
        tuple(line.points for line in lines),
        tuple(line.tints.values for line in lines if line.tints),
        tuple(_Every(cloud.centres, stride) for cloud, stride in zip(clouds, strides, strict=True)),
        tuple((each.feet, each.vectors) for each in arrows),
    )
    poses, points, tints, centres, vectors = BatchedFunction(parts, _BLOCK)(t, state)
    frames = {key: (np.asarray(x), _quaternions(np.asarray(R))) for key, (x, R) in zip(poses_by_id, poses, strict=True)}
    tint_values = iter(tints)
    return Motion(
        t=t,
        rows=rows,
        positions=[frames[id(body.pose)][0] for body in bodies],
        quaternions=[frames[id(body.pose)][1] for body in bodies],
        lines=points,
        tints=[next(tint_values) if line.tints else None for line in lines],
        trails=[_trail(trail, solution)[rows] for trail in trails],
        clouds=centres,
        strides=strides,
        arrows=vectors,
    )


class _Every(eqx.Module):
    points: Any
    stride: int = eqx.field(static=True)

    def __call__(self, t: Array, state: State) -> Array:
        return self.points(t, state)[:: self.stride]


class _Parts(eqx.Module):
    poses: tuple[Any, ...]
    points: tuple[Any, ...]
    tints: tuple[Any, ...]
    centres: tuple[Any, ...]
    arrows: tuple[Any, ...]

    def __call__(self, t: Array, state: State) -> Any:
        return (
            [pose(t, state) for pose in self.poses],
            [points(t, state) for points in self.points],
            [values(t, state) for values in self.tints],
            [centres(t, state) for centres in self.centres],
            [(feet(t, state), vectors(t, state)) for feet, vectors in self.arrows],
        )


def _trail(trail: Trail, solution: Run) -> np.ndarray:
    values = np.asarray(solution.outputs[trail.output])
    return values if trail.index is None else values[:, trail.index]


def _choose(t: np.ndarray, numbers_a_frame: int, spheres_a_frame: int, most: int | None) -> np.ndarray:
    """Indices of frames in order of time, evenly spread over it."""
    order = np.argsort(t, kind="stable")
    limit = min(_MOST_NUMBERS // max(numbers_a_frame, 1), _MOST_SPHERES // max(spheres_a_frame, 1))
    count = int(np.clip(limit, _FEWEST_FRAMES, _MOST_FRAMES)) if most is None else most
    if len(t) <= count:
        return order
    instants = np.linspace(t[order[0]], t[order[-1]], count)
    places = np.searchsorted(t[order], instants)
    return order[np.unique(np.clip(places, 0, len(t) - 1))]


def rotate(quaternions: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A vector (3,) rotated by each of some unit quaternions (k, 4): v + 2 u × (w v + u × v)."""
    w, u = quaternions[:, :1], quaternions[:, 1:]
    return vector + 2 * np.cross(u, w * vector + np.cross(u, vector))


def _quaternions(rotations: np.ndarray) -> np.ndarray:
    """Unit quaternions (w, x, y, z) of rotation matrices (k, 3, 3), each in the half space of the one before.

    Sheppard's choice: the component of largest magnitude comes from the diagonal, so nothing cancels.
    """
    R = rotations
    trace = np.trace(R, axis1=1, axis2=2)
    squares = np.concatenate([trace[:, None], np.einsum("kii->ki", R)], axis=1)
    candidates = np.stack(
        [
            np.stack([1 + trace, R[:, 2, 1] - R[:, 1, 2], R[:, 0, 2] - R[:, 2, 0], R[:, 1, 0] - R[:, 0, 1]], axis=1),
            *(_column(R, trace, i) for i in range(3)),
        ],
        axis=1,
    )
    q = candidates[np.arange(len(R)), np.argmax(squares, axis=1)]
    q /= np.linalg.norm(q, axis=1, keepdims=True)
    flips = np.sign(np.sum(q[1:] * q[:-1], axis=1))
    q[1:] *= np.cumprod(np.where(flips < 0, -1.0, 1.0))[:, None]
    return q


def _column(R: np.ndarray, trace: np.ndarray, i: int) -> np.ndarray:
    j, k = (i + 1) % 3, (i + 2) % 3
    q = np.empty((len(R), 4))
    q[:, 0] = R[:, k, j] - R[:, j, k]
    q[:, 1 + i] = 1 + 2 * R[:, i, i] - trace
    q[:, 1 + j] = R[:, j, i] + R[:, i, j]
    q[:, 1 + k] = R[:, k, i] + R[:, i, k]
    return q
