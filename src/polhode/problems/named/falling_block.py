"""A lattice of bonded particles that falls on a floor."""

from __future__ import annotations

from typing import Any

import numpy as np

from polhode import checks
from polhode.particles import BondMaterial, Particles, Plane, Strength, builders
from polhode.problem import Problem
from polhode.problems._particles import particle_problem
from polhode.problems.registry import register

_DOC = """A cubic block of bonded spheres is dropped, turned about an edge and a corner, and hits the floor z = 0.

Bonds along the edges of the lattice and the diagonals of its faces; contacts by Hertz's law, damped on request. With
a `strength` bonds break where tension, bending and shear add up to more than they bear. Units: m, kg, s; the defaults
are a block of 0.1 m of a light, soft material, so that it rebounds with visible deformation.

Parameters: `edge` (particles along each edge), `diameter`, `mass` of a particle, `height` of the lowest particle's
surface, `turn` (rotation vector), `stiffness` (N/m of stretching a bond), `strength` (tensile force that a bond bears,
infinite for none), `damping` (N s/m of bonds and contacts), `gravity`, `duration`, `dtype`.
"""


@register("falling-block")
def falling_block(
    edge: int = 5,
    diameter: Any = 0.02,
    mass: Any = 5e-3,
    height: Any = 0.05,
    turn: Any = (0.5, 0.3, 0.0),
    stiffness: Any = 2e4,
    strength: Any = float("inf"),
    damping: Any = 0.0,
    gravity: Any = 9.81,
    duration: Any = 0.2,
    dtype: str = "float64",
) -> Problem:
    """The falling block.

    **Arguments:**

    - `edge`: particles along each edge. - `diameter`, `mass`: of a particle, in m and kg.
    - `height`: of the lowest point above the floor at t = 0, in m. - `turn`: rotation vector of the block, shape (3,).
    - `stiffness`: of a bond that is stretched, in N/m; half of it when it is sheared, and of a beam of its size in
      bending; contacts are as stiff at an overlap of a tenth.
    - `strength`: tensile force at which a bond breaks, in N; shear and bending accordingly. Infinite for never.
    - `damping`: of bonds and contacts, in N s/m. - `gravity`: in m/s², downwards. - `duration`: end time, in s.
    - `dtype`: "float64" or "float32".
    """
    numbers = dict(locals())
    D = float(checks.positive("diameter", diameter, (), "diameter of a particle"))
    m = checks.positive("mass", mass, (), "mass of a particle")
    k = checks.positive("stiffness", stiffness, (), "stiffness of a bond")
    g = checks.array("gravity", gravity, (), "acceleration by gravity")
    c = checks.array("damping", damping, (), "damping of bonds and contacts")
    drop = float(checks.array("height", height, (), "height of the lowest point"))
    checks.positive("duration", duration, (), "end time")
    layout = builders.block((edge, edge, edge), D, diagonals=True)
    x = builders.rotate(layout.positions, checks.array("turn", turn, (3,), "rotation vector of the block"))
    x = x + np.array([0.0, 0.0, drop + 0.5 * D - x[:, 2].min()])
    # What may be infinite is checked as all other numbers, but for that.
    checks.shape("strength", strength, "tensile force that a bond bears")
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
        gravity=(0.0, 0.0, -g),  # pyright: ignore[reportArgumentType]
        dtype=dtype,
    )
    return particle_problem("falling-block", system, system.start(x), numbers, _DOC, falling_block)
