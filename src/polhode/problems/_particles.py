"""What problems of bonded particles share."""

from __future__ import annotations

import numpy as np

from polhode.particles import Particles
from polhode.spaces import quaternions
from polhode.viewing.scene import Body, Scene

_DRAWN = 400
"""Spheres that a scene shows at most."""


def scene(system: Particles) -> Scene:
    """The particles as spheres; of many, some that are spread evenly over their numbers."""
    shown = np.unique(np.linspace(0, system.n - 1, min(system.n, _DRAWN)).astype(int))
    sizes = np.asarray(system.diameters)

    def body(i: int) -> Body:
        return Body(
            f"particle {i}", "ellipsoid", np.full(3, sizes[i]), lambda t, s: (s[0][i], quaternions.to_matrix(s[1][i]))
        )

    return Scene(tuple(body(int(i)) for i in shown))
