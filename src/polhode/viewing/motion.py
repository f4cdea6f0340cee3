"""The poses of a scene's parts over a run, sampled for showing."""

from __future__ import annotations

import dataclasses
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jaxtyping import Array

from polhode.captured.programs import compiled
from polhode.solution import Solution
from polhode.systems.base import State
from polhode.viewing.scene import Body, Line, Scene, Trail

_MOST_FRAMES = 1500
_FEWEST_FRAMES = 60
_MOST_NUMBERS = 1_500_000


@dataclasses.dataclass(frozen=True)
class Motion:
    """Where every part of a scene is at k chosen frames.

    - `t`: (k,), increasing.
    - `positions`, `quaternions`: of the pose of each body, (k, 3) and (k, 4); quaternions (w, x, y, z) without jumps
      of sign. Bodies that share their pose share the arrays.
    - `lines`: one array (k, points, 3) a line; `trails`: one array (k, 3) a trail.
    """

    t: np.ndarray
    positions: list[np.ndarray]
    quaternions: list[np.ndarray]
    lines: list[np.ndarray]
    trails: list[np.ndarray]

    def bounds(self, bodies: list[Body], up: np.ndarray) -> tuple[np.ndarray, float, float]:
        """Centre and radius of a sphere around the whole motion, and the height of its lowest place along `up`."""
        clouds = [(points.reshape(-1, 3), 0.0) for points in (*self.lines, *self.trails)]
        floors = [float(np.min(points @ up)) for points, _ in clouds]
        for body, x, q in zip(bodies, self.positions, self.quaternions, strict=True):
            if not body.framed:
                continue
            places, half = x + rotated(q, np.asarray(body.at)), np.asarray(body.size) / 2
            clouds.append((places, float(np.linalg.norm(half))))
            # Along a direction n of its frame a box reaches as far as |n| · half, an ellipsoid |n ∘ half|.
            across = rotated(q * [1.0, -1.0, -1.0, -1.0], up) @ np.asarray(body.turn)
            depth = np.linalg.norm(across * half, axis=1) if body.shape == "ellipsoid" else np.abs(across) @ half
            floors.append(float(np.min(places @ up - depth)))
        low = np.min([np.min(points, axis=0) - r for points, r in clouds], axis=0)
        high = np.max([np.max(points, axis=0) + r for points, r in clouds], axis=0)
        centre = (low + high) / 2
        radius = max(float(np.max(np.linalg.norm(points - centre, axis=-1))) + r for points, r in clouds)
        return centre, radius, min(floors)


def sample(scene: Scene, solution: Solution) -> Motion:
    """The poses at no more frames than a viewer needs, evenly spread over time."""
    bodies = [part for part in scene.parts if isinstance(part, Body)]
    lines = [part for part in scene.parts if isinstance(part, Line)]
    trails = [part for part in scene.parts if isinstance(part, Trail)]
    # Parts of one body share its pose, which is sampled once.
    shared = {id(body.pose): body.pose for body in bodies}
    chosen = _choose(np.asarray(solution.t), 7 * len(shared) + 12 * len(lines) + 3 * len(trails))
    t = np.asarray(solution.t)[chosen]
    source = solution.outputs if scene.reads == "outputs" else solution.state
    state = jax.tree.map(lambda x: np.asarray(x)[chosen], source)
    poses, points = _evaluate(_Parts(tuple(shared.values()), tuple(line.points for line in lines)), t, state)
    frames = {key: (np.asarray(x), _quaternions(np.asarray(R))) for key, (x, R) in zip(shared, poses, strict=True)}
    return Motion(
        t=t,
        positions=[frames[id(body.pose)][0] for body in bodies],
        quaternions=[frames[id(body.pose)][1] for body in bodies],
        lines=[np.asarray(p) for p in points],
        trails=[_trail(trail, solution)[chosen] for trail in trails],
    )


class _Parts(eqx.Module):
    poses: tuple[Any, ...]
    points: tuple[Any, ...]

    def __call__(self, t: Array, state: State) -> tuple[list[tuple[Array, Array]], list[Array]]:
        return [pose(t, state) for pose in self.poses], [points(t, state) for points in self.points]


@compiled
def _evaluate(parts: _Parts, t: Any, state: State) -> tuple[list[tuple[Array, Array]], list[Array]]:
    return jax.vmap(parts)(t, state)


def _trail(trail: Trail, solution: Solution) -> np.ndarray:
    values = np.asarray(solution.outputs[trail.output])
    return values if trail.index is None else values[:, trail.index]


def _choose(t: np.ndarray, numbers_a_frame: int) -> np.ndarray:
    """Indices in order of time, evenly spread over it."""
    order = np.argsort(t, kind="stable")
    most = int(np.clip(_MOST_NUMBERS // max(numbers_a_frame, 1), _FEWEST_FRAMES, _MOST_FRAMES))
    if len(t) <= most:
        return order
    wanted = np.linspace(t[order[0]], t[order[-1]], most)
    places = np.searchsorted(t[order], wanted)
    return order[np.unique(np.clip(places, 0, len(t) - 1))]


def rotated(quaternions: np.ndarray, vector: np.ndarray) -> np.ndarray:
    """A vector (3,) turned by each of some unit quaternions (k, 4): v + 2 u × (w v + u × v)."""
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
