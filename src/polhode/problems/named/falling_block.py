"""A lattice of bonded particles that falls on a floor."""

from __future__ import annotations

from typing import Annotated, Any

import numpy as np

from polhode import checks
from polhode.particles import BondMaterial, Particles, Plane, Strength, builders
from polhode.problems._particles import particle_draft
from polhode.problems.declaration import Check, Draft, NotNegative, Number, Positive, declare

_DOC = """A cubic block of bonded spheres is dropped, turned about an edge and a corner, and hits the floor z = 0.

Bonds along the edges of the lattice and the diagonals of its faces; contacts by Hertz's law, damped on request. With
a `strength` bonds break where tension, bending and shear add up to more than they bear. Units: m, kg, s; the defaults
are a block of 0.1 m of a light, soft material, so that it rebounds with visible deformation.
"""


def _limit(name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Any:
    """A positive number or array, or infinity."""
    infinite = checks.is_concrete(value) and np.array_equal(checks.numbers(name, value, meaning), np.inf)
    return np.inf if infinite else checks.positive(name, value, shape, meaning)


Limit = Annotated[Any, Check(_limit)]


@declare("falling-block", _DOC)
def falling_block(
    edge: int = 5,
    diameter: Positive = 0.02,
    mass: Positive = 5e-3,
    height: Number = 0.05,
    turn: Number = (0.5, 0.3, 0.0),
    stiffness: Positive = 2e4,
    strength: Limit = float("inf"),
    damping: NotNegative = 0.0,
    gravity: Number = 9.81,
    duration: Positive = 0.2,
    dtype: str = "float64",
) -> Draft:
    """The falling block.

    **Arguments**, in m, kg and s:

    - `edge`: particles along each edge.
    - `diameter`: diameter of a particle.
    - `mass`: mass of a particle.
    - `height`: height of the lowest point; above the floor at t = 0.
    - `turn`: rotation vector of the block; shape (3,).
    - `stiffness`: stiffness of a bond; of one that is stretched, in N/m. Half of it when it is sheared, and of a beam
      of its size in bending; contacts are as stiff at an overlap of a tenth.
    - `strength`: tensile force that a bond bears, in N; shear and bending accordingly. Infinite for never.
    - `damping`: damping of bonds and contacts; in N s/m.
    - `gravity`: acceleration by gravity; downwards.
    - `duration`: end time.
    - `dtype`: "float64" or "float32".
    """
    D, m, k, c, drop = float(diameter), mass, stiffness, damping, float(height)
    layout = builders.block((edge, edge, edge), D, diagonals=True)
    x = builders.rotate(layout.positions, turn)
    x = x + np.array([0.0, 0.0, drop + 0.5 * D - x[:, 2].min()])
    breakable = not (checks.is_concrete(strength) and np.isposinf(strength))
    limit = Strength(strength, 0.25 * strength * D, 0.5 * strength) if breakable else None
    system = Particles(
        m,
        0.1 * m * D**2,
        layout.diameters,
        x,
        layout.pairs,
        BondMaterial(k * D**2 / 12, k * D**2, 0.5 * k * D**2, c, 0.1 * c * D**2, limit),
        contact=2 * k * D**2,
        contact_damping=c,
        walls=(Plane(),),
        gravity=(0.0, 0.0, -gravity),
        dtype=dtype,
    )
    return particle_draft(system, system.start(x))
