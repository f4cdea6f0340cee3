"""Shared parts of problems of bonded particles."""

from __future__ import annotations

from typing import Any

import numpy as np

from polhode import checks
from polhode.particles import Particles
from polhode.problems.declaration import Draft
from polhode.spaces import quaternions
from polhode.viewing.scene.scene import Body, Cloud, Scene

_MAX_MARKED = 200
"""Largest number of spheres for which a scene shows rotations."""


def particle_draft(system: Particles, state0: Any, h: float | None = None) -> Draft:
    """The draft of a problem of a system; `h` is about a quarter of the stability limit if it isn't given."""
    if h is None:
        fastest = float(system.frequency()) if checks.is_concrete(system) else 0.0
        h = float(f"{0.5 / fastest:.1g}") if fastest else 1e-4
    return Draft(
        system=system,
        state0=state0,
        outputs=system.outputs(),
        invariants=system.invariants(),
        integrator="rodrigues",
        h=h,
        scene=scene(system) if checks.is_concrete(system.diameters) else None,
    )


def scene(system: Particles) -> Scene:
    """The particles as spheres; where they are few, with marks that show their rotation."""
    sizes = np.asarray(system.diameters)
    if system.n > _MAX_MARKED:
        return Scene((Cloud("particles", lambda t, s: s[0], sizes),))

    def body(i: int) -> Body:
        return Body(
            f"particle {i}", "ellipsoid", np.full(3, sizes[i]), lambda t, s: (s[0][i], quaternions.to_matrix(s[1][i]))
        )

    return Scene(tuple(body(i) for i in range(system.n)))
