"""Grains of bonded spheres that are poured into a pile, for any number of them."""

from __future__ import annotations

import numpy as np

from polhode.particles import BondMaterial, Box, Particles, builders
from polhode.problems._grains import generator
from polhode.problems._particles import particle_draft
from polhode.problems.declaration import Count, Draft, NotNegative, Number, Positive, declare

_DOC = """Grains of four bonded spheres each fall into a box and come to rest in a pile.

Grains start on a lattice, turned at random, and fall under gravity; bonds and contacts are damped. For measuring how
the cost of a step grows with the number of particles, 10⁴ to 10⁶, and for looking at. Units: m, kg, s.
"""

_GRAIN_DISTANCE = 2.6
"""Of grains at the start, in diameters: their particles can't touch, however they are turned."""


@declare("grain-pile", _DOC)
def grain_pile(
    grains: Count = 250,
    diameter: Positive = 0.01,
    mass: Positive = 1e-3,
    stiffness: Positive = 2e3,
    damping: NotNegative = 0.3,
    gravity: Number = 9.81,
    seed: int = 0,
    duration: Positive = 0.5,
    dtype: str = "float64",
) -> Draft:
    """The pile of grains.

    **Arguments**, in m, kg and s:

    - `grains`: grains in the pile; each is a tetrahedron of four particles with six bonds.
    - `diameter`: diameter of a particle.
    - `mass`: mass of a particle.
    - `stiffness`: stiffness of a bond; of one that is stretched, in N/m.
    - `damping`: damping of bonds and contacts; in N s/m.
    - `gravity`: acceleration by gravity.
    - `seed`: of the turns at the start.
    - `duration`: end time.
    - `dtype`: "float64" or "float32".
    """
    D, m, k, c = float(diameter), mass, stiffness, damping
    layout, corner = _pour(grains, D, generator(seed))
    system = Particles(
        m,
        0.1 * m * D**2,
        layout.diameters,
        layout.positions,
        layout.pairs,
        BondMaterial(k * D**2 / 12, k * D**2, 0.5 * k * D**2, c, 0.1 * c * D**2),
        contact=2 * k * D**2,
        contact_damping=c,
        walls=(Box((0.0, 0.0, 0.0), (*corner, np.inf)),),
        gravity=(0.0, 0.0, -gravity),
        dtype=dtype,
    )
    return particle_draft(system, system.start(layout.positions))


def _pour(grains: int, D: float, random: np.random.Generator) -> tuple[builders.Layout, tuple[float, float]]:
    """Tetrahedra on a lattice that is twice as high as wide, and the corner of the box around them."""
    across = max(1, round((grains / 2) ** (1 / 3)))
    number = np.arange(grains)
    place = np.stack((number % across, number // across % across, number // across**2), axis=1) + 0.5
    one = D / np.sqrt(8) * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    turns = random.standard_normal((grains, 4))
    R = builders.matrices(turns / np.linalg.norm(turns, axis=1, keepdims=True))
    x = _GRAIN_DISTANCE * D * place[:, None] + np.einsum("nij,kj->nki", R, one)
    pairs = np.array([(i, j) for i in range(4) for j in range(i)])
    bonds = (4 * number[:, None, None] + pairs).reshape(-1, 2)
    side = _GRAIN_DISTANCE * D * across
    return builders.Layout(x.reshape(-1, 3), np.full(4 * grains, D), bonds), (side, side)
