"""Grains of bonded spheres that are poured into a pile, for any number of them."""

from __future__ import annotations

from typing import Any

import numpy as np

from polhode import checks
from polhode.particles import BondMaterial, Box, Particles, builders
from polhode.problem import Problem
from polhode.problems._particles import particle_problem
from polhode.problems.registry import register

_DOC = """Grains of four bonded spheres each fall into a box and come to rest in a pile.

Grains start on a lattice, turned at random, and fall under gravity; bonds and contacts are damped. For measuring how
the cost of a step grows with the number of particles, 10⁴ to 10⁶, and for looking at. Units: m, kg, s.

Parameters: `grains` (four particles each), `diameter`, `mass` of a particle, `stiffness`, `damping`, `gravity`, `seed`,
`duration`, `dtype`.
"""

_GRAIN_DISTANCE = 2.6
"""Of grains at the start, in diameters: their particles can't touch, however they are turned."""


@register("grain-pile")
def grain_pile(
    grains: int = 250,
    diameter: Any = 0.01,
    mass: Any = 1e-3,
    stiffness: Any = 2e3,
    damping: Any = 0.3,
    gravity: Any = 9.81,
    seed: int = 0,
    duration: Any = 0.5,
    dtype: str = "float64",
) -> Problem:
    """The pile of grains.

    **Arguments:**

    - `grains`: their number; each is a tetrahedron of four particles with six bonds.
    - `diameter`, `mass`: of a particle, in m and kg. - `stiffness`: of a bond that is stretched, in N/m.
    - `damping`: of bonds and contacts, in N s/m. - `gravity`: in m/s². - `seed`: of the turns at the start.
    - `duration`: end time, in s. - `dtype`: "float64" or "float32".
    """
    numbers = dict(locals())
    checks.count("grains", grains, "grains in the pile")
    D = float(checks.positive("diameter", diameter, (), "diameter of a particle"))
    m = checks.positive("mass", mass, (), "mass of a particle")
    k = checks.positive("stiffness", stiffness, (), "stiffness of a bond")
    c = checks.array("damping", damping, (), "damping of bonds and contacts")
    g = checks.array("gravity", gravity, (), "acceleration by gravity")
    checks.positive("duration", duration, (), "end time")
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"`seed` must be a whole number, 0 or more, got {checks.short_repr(seed)}.")
    layout, corner = _pour(grains, D, int(seed))
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
        gravity=(0.0, 0.0, -g),  # pyright: ignore[reportArgumentType]
        dtype=dtype,
    )
    return particle_problem("grain-pile", system, system.start(layout.positions), numbers, _DOC, grain_pile)


def _pour(grains: int, D: float, seed: int) -> tuple[builders.Layout, tuple[float, float]]:
    """Tetrahedra on a lattice that is twice as high as wide, and the corner of the box around them."""
    across = max(1, round((grains / 2) ** (1 / 3)))
    number = np.arange(grains)
    place = np.stack((number % across, number // across % across, number // across**2), axis=1) + 0.5
    one = D / np.sqrt(8) * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]])
    turns = np.random.default_rng(seed).standard_normal((grains, 4))
    R = builders.matrices(turns / np.linalg.norm(turns, axis=1, keepdims=True))
    x = _GRAIN_DISTANCE * D * place[:, None] + np.einsum("nij,kj->nki", R, one)
    pairs = np.array([(i, j) for i in range(4) for j in range(i)])
    bonds = (4 * number[:, None, None] + pairs).reshape(-1, 2)
    side = _GRAIN_DISTANCE * D * across
    return builders.Layout(x.reshape(-1, 3), np.full(4 * grains, D), bonds), (side, side)
