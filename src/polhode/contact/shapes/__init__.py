"""Shapes on bodies, with which they touch each other.

In: sizes, and where a shape sits on its body. Out: shapes that know their pose, mass, support points and bounds; the
distances between two of them are in `polhode.contact.distances`. Open first: `shape.py`.
"""

import lazy_loader

from polhode.name_errors import getattr_with_suggestions

# The names are in `__init__.pyi`, and are loaded when they are used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

_SUGGESTIONS = {
    **dict.fromkeys(("Cube", "Cuboid"), "It is `Box(size)`, with three edge lengths."),
    **dict.fromkeys(("Ball", "Point"), "It is `Sphere(radius)`."),
    **dict.fromkeys(("HalfSpace", "Halfspace", "Ground", "Floor"), "It is `Plane(point, normal)`."),
    **dict.fromkeys(("Mesh", "Hull", "Convex"), "Convex bodies are `ConvexMesh(vertices)`, others `TriangleMesh`."),
    **dict.fromkeys(("Terrain", "HeightField"), "It is `Heightfield(heights, size)`."),
}

__getattr__ = getattr_with_suggestions(__name__, __getattr__, __all__, _SUGGESTIONS)
