"""Grains with friction that leave a hopper through its hole."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.particles import Cone, Cylinder, Particles, Plane
from polhode.problems._grains import Grains, contact_law, disturb, edge, generator, make_grains, ring, wall_scene
from polhode.problems.declaration import Count, Draft, NotNegative, Number, Positive, declare

_DOC = """Grains with friction run out of a conical hopper into a bin, evenly as in an hourglass.

A cone with a round hole divides a vertical tube; grains start above it, loose and at rest, and come to rest on the
floor below. Contacts are linear springs and dashpots with friction that remembers, so that grains lean on the walls and
on each other: the flow depends on the hole and hardly on the height above it. `discharged` is the mass below the hole.
A hole of a few diameters may clog. Units: m, kg, s.
"""

_LOOSE = 0.5
"""Volume of grains over that of the bin that they fill, less than after the loosest fall."""

_STEEPEST = 0.05


@declare("hopper", _DOC)
def hopper(
    grains: Count = 300,
    diameter: Positive = 0.01,
    spread: NotNegative = 0.1,
    density: Positive = 2500.0,
    radius: Positive = 0.045,
    hole: Positive = 0.045,
    half_angle: Positive = 0.7,
    friction: NotNegative = 0.5,
    wall_friction: NotNegative = 0.3,
    rolling_friction: NotNegative = 0.0,
    stiffness: Positive = 1000.0,
    restitution: Positive = 0.4,
    gravity: Number = 9.81,
    seed: int = 0,
    duration: Positive = 1.0,
    dtype: str = "float64",
) -> Draft:
    """The hopper.

    **Arguments**, in m, kg and s:

    - `grains`: grains in the hopper.
    - `diameter`: mean diameter of a grain.
    - `spread`: share of the diameter by which grains are smaller or larger; at most.
    - `density`: density of grains.
    - `radius`: radius of the tube around hopper and bin.
    - `hole`: diameter of the hole.
    - `half_angle`: of the cone, between axis and wall; in radians, π/2 for a flat floor.
    - `friction`: coefficient of friction between grains.
    - `wall_friction`: coefficient of friction between grains and walls.
    - `rolling_friction`: coefficient of rolling friction of all contacts; 0 for none.
    - `stiffness`: stiffness of a contact; in N/m.
    - `restitution`: coefficient of restitution.
    - `gravity`: acceleration by gravity; along -z.
    - `seed`: of sizes and places at the start.
    - `duration`: end time.
    - `dtype`: "float64" or "float32".
    """
    R, a, angle = float(radius), 0.5 * float(hole), float(half_angle)
    if not a < R:
        raise ValueError(f"`hole` must be below twice the `radius` of the tube, got {checks.short_repr(hole)}.")
    if not _STEEPEST <= angle <= np.pi / 2:
        raise ValueError(
            f"`half_angle` must be between {_STEEPEST} and π/2 (of the cone), got {checks.short_repr(half_angle)}."
        )
    random = generator(seed)
    lot = make_grains(grains, diameter, spread, density, random)
    x = disturb(_lattice(lot, R, a, angle), lot, random)
    floor = -np.sum(lot.diameters**3) / (6 * _LOOSE * R**2) - 4 * lot.largest
    system = Particles(
        lot.masses,
        lot.inertias,
        lot.diameters,
        x,
        contact=contact_law(stiffness, restitution, friction, rolling_friction),
        wall_contact=contact_law(stiffness, restitution, wall_friction, rolling_friction),
        walls=(Cone(a, half_angle), Cylinder(radius), Plane((0.0, 0.0, floor))),
        gravity=(0.0, 0.0, -gravity),
        contact_outputs=True,
        dtype=dtype,
    )
    return Draft(
        system=system,
        state0=system.start(x),
        outputs={**system.outputs(), "discharged": lambda t, s: _below(system.masses, s[0])},
        invariants=system.invariants(),
        integrator="rodrigues",
        h=lot.step(stiffness),
        scene=wall_scene(lot.diameters, _edges(R, a, angle, floor, float(x[:, 2].max()))),
    )


def _below(masses: Array, x: Array) -> Array:
    """Mass below the hole."""
    return jnp.sum(jnp.where(x[:, 2] < 0, masses, 0.0))


def _lattice(lot: Grains, R: float, a: float, angle: float) -> np.ndarray:
    """Places on a lattice in the cone and in the tube above it, lowest first."""
    free = R - 0.6 * lot.largest
    side = lot.columns(free)
    x, y = (b.reshape(-1) for b in np.meshgrid(side, side, indexing="ij"))
    r = np.hypot(x, y)
    if not np.any(r < free):
        raise ValueError(f"`radius` must be above {0.6 * lot.largest:.4g}, or no grain is in the tube, got {R:.4g}.")
    places, z = [], 0.6 * lot.largest
    while sum(map(len, places)) < len(lot.masses):
        inside = (r < free) & ((r - a) * np.cos(angle) < z * np.sin(angle) - 0.6 * lot.largest)
        places.append(np.stack((x[inside], y[inside], np.full(np.count_nonzero(inside), z)), axis=1))
        z += lot.pitch
    return np.concatenate(places)[: len(lot.masses)]


def _edges(R: float, a: float, angle: float, floor: float, top: float) -> tuple[Any, ...]:
    """The rims of tube and cone, and lines down them."""
    rise = (R - a) / np.tan(angle)
    rims = {"floor": (R, floor), "hole": (a, 0.0), "shoulder": (R, rise), "top": (R, max(top, rise))}
    circles = [edge(name, ring(r) + np.array([0.0, 0.0, z])) for name, (r, z) in rims.items()]
    lines = []
    for k, foot in enumerate(ring(1.0, 6)[:6]):
        at = lambda name, foot=foot: rims[name][0] * foot + np.array([0.0, 0.0, rims[name][1]])  # noqa: E731
        lines += [edge(f"tube {k + 1}", (at("floor"), at("top"))), edge(f"cone {k + 1}", (at("hole"), at("shoulder")))]
    return (*circles, *lines)
