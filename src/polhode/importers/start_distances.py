"""Which shapes of a file overlap at the start."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode.contact import shapes
from polhode.contact.distances import contact_points
from polhode.contact.shapes.shape import AbstractConvex
from polhode.importers import rotations
from polhode.importers._mujoco import mujoco
from polhode.importers.collision_shapes import CollisionShape
from polhode.systems.mechanical import START_TOLERANCE

_UNSURE = 1e-5
"""Distances of MuJoCo, over the size of shapes, whose sign isn't relied upon: its vertices are single numbers, its
distances end their iterations at 1e-6."""


class StartDistances:
    """The shapes of a file where they start, in a model of MuJoCo, which finds distances within microseconds."""

    def __init__(self, shapes: Sequence[CollisionShape]) -> None:
        self._shapes = [one for one in shapes if isinstance(one.shape, AbstractConvex)]

    def overlap(self, first: CollisionShape, second: CollisionShape) -> bool:
        """Whether two convex shapes overlap by more than starts may."""
        size = float(first.shape.bounding_radius + second.shape.bounding_radius)
        m, data = self._model
        geoms = [next(k for k, other in enumerate(self._shapes) if other is one) for one in (first, second)]
        if np.linalg.norm(data.geom_xpos[geoms[0]] - data.geom_xpos[geoms[1]]) > 2 * size:
            return False
        gap = mujoco.mj_geomDistance(m, data, *geoms, size, None)
        if abs(gap) > _UNSURE * size:
            return gap < 0
        points = contact_points(first.shape, first.pose, second.shape, second.pose)
        return bool(np.min(points.gap) < -START_TOLERANCE)

    @functools.cached_property
    def _model(self) -> tuple[Any, Any]:
        spec = mujoco.MjSpec()
        for number, one in enumerate(self._shapes):
            _add_geom(spec, f"geom-{number}", one)
        m = spec.compile()
        data = mujoco.MjData(m)
        mujoco.mj_kinematics(m, data)
        return m, data


def _add_geom(spec: Any, name: str, one: CollisionShape) -> None:
    """The shape as a geom of the world."""
    x, R = map(np.asarray, one.shape.pose_in(one.pose))
    kinds = mujoco.mjtGeom
    add = functools.partial(spec.worldbody.add_geom, name=name, pos=x, quat=rotations.to_quaternion(R))
    match one.shape:
        case shapes.Sphere(radius=radius):
            add(type=kinds.mjGEOM_SPHERE, size=[radius, 0, 0])
        case shapes.Capsule(radius=radius, half=half):
            add(type=kinds.mjGEOM_CAPSULE, size=[radius, half, 0])
        case shapes.Cylinder(radius=radius, half=half):
            add(type=kinds.mjGEOM_CYLINDER, size=[radius, half, 0])
        case shapes.Ellipsoid(semi_axes=semi_axes):
            add(type=kinds.mjGEOM_ELLIPSOID, size=np.asarray(semi_axes))
        case shapes.Box(half=half):
            add(type=kinds.mjGEOM_BOX, size=np.asarray(half))
        case shapes.ConvexMesh(vertices=vertices):
            inertia = mujoco.mjtMeshInertia.mjMESH_INERTIA_CONVEX
            spec.add_mesh(name=name, uservert=np.asarray(vertices).ravel(), inertia=inertia)
            add(type=kinds.mjGEOM_MESH, meshname=name)
