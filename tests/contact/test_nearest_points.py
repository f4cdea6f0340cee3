"""Nearest points of general convex shapes: they lie on both surfaces, in directions of both normal cones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import polhode as ph
from polhode.compiler.native_jit import native_jit
from polhode.contact.distances import contact_points

SHAPES = {
    "box": ph.shapes.Box((0.5, 0.8, 0.3)),
    "ellipsoid": ph.shapes.Ellipsoid((0.5, 0.2, 0.35)),
    "capsule": ph.shapes.Capsule(0.2, 0.7),
    "cylinder": ph.shapes.Cylinder(0.3, 0.5),
}
_ON = 1e-7
"""Distance up to which a point counts as one of a face."""


def on_ellipsoid(shape: Any, point: Any, normal: Any) -> tuple[float, float]:
    slope = point / np.asarray(shape.semi_axes) ** 2
    return abs(point @ slope - 1), float(np.linalg.norm(np.cross(slope / np.linalg.norm(slope), normal)))


def on_box(shape: Any, point: Any, normal: Any) -> tuple[float, float]:
    beyond = np.abs(point) - 0.5 * np.asarray(shape.size)
    on = np.abs(beyond) < _ON
    cone = np.where(on, np.minimum(normal * np.sign(point), 0.0), normal)
    return float(np.max(np.where(on, np.abs(beyond), np.maximum(beyond, 0.0)))), float(np.linalg.norm(cone))


def on_capsule(shape: Any, point: Any, normal: Any) -> tuple[float, float]:
    half = float(shape.half)
    out = point - [0.0, 0.0, np.clip(point[2], -half, half)]
    length = np.linalg.norm(out)
    return abs(length - float(shape.radius)), float(np.linalg.norm(np.cross(out / length, normal)))


def on_cylinder(shape: Any, point: Any, normal: Any) -> tuple[float, float]:
    radius, out = np.hypot(*point[:2]), point * [1, 1, 0]
    beyond = np.array([radius - float(shape.radius), abs(point[2]) - float(shape.half)])
    on, across = np.abs(beyond) < _ON, np.cross(out / radius, normal)[2]
    parts = np.array([normal @ out / radius, normal[2] * np.sign(point[2])])
    cone = np.append(np.where(on, np.minimum(parts, 0.0), parts), across)
    return float(np.max(np.where(on, np.abs(beyond), np.maximum(beyond, 0.0)))), float(np.linalg.norm(cone))


ON_SURFACE = {"box": on_box, "ellipsoid": on_ellipsoid, "capsule": on_capsule, "cylinder": on_cylinder}


def evaluate(pair: Any, place: Any, R: Any, S: Any) -> Any:
    return contact_points(pair[0], (np.zeros(3), R), pair[1], (place, S))


@pytest.mark.parametrize(
    "names",
    [
        ("box", "ellipsoid"),
        *(
            pytest.param(names, marks=pytest.mark.exhaustive)
            for names in [
                ("capsule", "ellipsoid"), ("cylinder", "ellipsoid"), ("ellipsoid", "ellipsoid"), ("capsule", "box"),
                ("box", "cylinder"), ("capsule", "cylinder"), ("cylinder", "cylinder"),
            ]
        ),
    ],
    ids="-".join,
)  # fmt: skip
def test_nearest_points_and_normals_are_exact(names: tuple[str, str]) -> None:
    """A search by distances finds them to the root of round-off, with which steps that iterate don't converge."""
    shapes, rng = [SHAPES[name] for name in names], np.random.default_rng(1)
    find = native_jit(evaluate, shapes)
    for goal in (1e-3, 1e-9, -1e-3):
        for _ in range(60):
            R, S = (Rotation.random(random_state=rng).as_matrix() for _ in range(2))
            direction, far = rng.normal(size=3), 3.0
            direction /= np.linalg.norm(direction)
            for _ in range(4):
                found = find(far * direction, R, S)
                k = int(np.argmin(found.gap))
                gap, normal, middle = found.gap[k], found.normal[k], found.point[k]
                place, far = far * direction, far - (gap - goal) / abs(normal @ direction)
            a, b = R.T @ (middle - 0.5 * gap * normal), S.T @ (middle + 0.5 * gap * normal - place)
            first = ON_SURFACE[names[0]](shapes[0], a, R.T @ normal)
            second = ON_SURFACE[names[1]](shapes[1], b, -S.T @ normal)
            # Next to the normal of a cap directions across a rim are known to a part of their round-off.
            assert max(*first, *second) < 1e-11
