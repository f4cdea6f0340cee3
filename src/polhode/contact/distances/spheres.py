"""Spheres against other shapes; the sphere comes first."""

from __future__ import annotations

import numpy as np

from polhode.contact.distances.contact_points import ContactPoints, between_spheres
from polhode.contact.shapes.shape import Pose
from polhode.contact.shapes.sphere import Sphere

_UP = np.array([0.0, 0.0, 1.0])


def sphere_sphere(first: Sphere, pose: Pose, second: Sphere, other: Pose) -> ContactPoints:
    """Along the line of centres; upwards where they coincide."""
    return between_spheres(pose[0], first.radius, other[0], second.radius, _UP)
