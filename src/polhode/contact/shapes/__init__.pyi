"""Shapes on bodies, with which they touch each other."""

from .box import Box as Box
from .capsule import Capsule as Capsule
from .convex_mesh import ConvexMesh as ConvexMesh
from .cylinder import Cylinder as Cylinder
from .disc import Disc as Disc
from .ellipsoid import Ellipsoid as Ellipsoid
from .heightfield import Heightfield as Heightfield
from .plane import Plane as Plane
from .shape import AbstractConvex as AbstractConvex
from .shape import AbstractShape as AbstractShape
from .shape import MassProperties as MassProperties
from .sphere import Sphere as Sphere
from .triangle_mesh import TriangleMesh as TriangleMesh
