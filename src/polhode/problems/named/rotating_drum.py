"""Grains with friction in a drum that turns."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.particles import Cylinder, MovingWall, Particles
from polhode.problems._grains import Grains, contact_law, disturb, edge, generator, make_grains, ring, wall_scene
from polhode.problems.declaration import Count, Draft, NotNegative, Number, Positive, declare

_DOC = """Grains with friction lie in a horizontal drum that turns slowly, and flow down a slope of constant angle.

The bed turns with the drum until it is as steep as friction bears, and then flows along its surface. Contacts are
linear springs and dashpots with friction that remembers; the drum goes on along its axis by periods. `slope` is the
angle of the bed: that of the perpendicular from the axis through the centre of mass. In a steady flow the work that the
drum does, `wall_work`, is that of the weight at the lever of this centre. Units: m, kg, s.
"""

_BARS = 8
"""Lines along the drum that show how it turns."""


@declare("rotating-drum", _DOC)
def rotating_drum(
    grains: Count = 300,
    diameter: Positive = 0.01,
    spread: NotNegative = 0.1,
    density: Positive = 2500.0,
    radius: Positive = 0.08,
    width: Positive = 0.04,
    angular_velocity: Number = 2.0,
    friction: NotNegative = 0.5,
    wall_friction: NotNegative = 0.8,
    rolling_friction: NotNegative = 0.0,
    stiffness: Positive = 500.0,
    restitution: Positive = 0.4,
    gravity: Number = 9.81,
    seed: int = 0,
    duration: Positive = 1.5,
    dtype: str = "float64",
) -> Draft:
    """The rotating drum.

    **Arguments**, in m, kg and s:

    - `grains`: grains in the drum.
    - `diameter`: mean diameter of a grain.
    - `spread`: share of the diameter by which grains are smaller or larger; at most.
    - `density`: density of grains.
    - `radius`: radius of the drum.
    - `width`: period along the axis of the drum; at least 2.4 diameters of the largest grain.
    - `angular_velocity`: of the drum; about the y-axis.
    - `friction`: coefficient of friction between grains.
    - `wall_friction`: coefficient of friction between grains and the drum.
    - `rolling_friction`: coefficient of rolling friction of all contacts; 0 for none.
    - `stiffness`: stiffness of a contact; in N/m.
    - `restitution`: coefficient of restitution.
    - `gravity`: acceleration by gravity; along -z.
    - `seed`: of sizes and places at the start.
    - `duration`: end time.
    - `dtype`: "float64" or "float32".
    """
    random = generator(seed)
    lot = make_grains(grains, diameter, spread, density, random)
    x = disturb(_bed(lot, float(radius), float(width)), lot, random)
    spin = jnp.zeros(3).at[1].set(angular_velocity)
    system = Particles(
        lot.masses,
        lot.inertias,
        lot.diameters,
        x,
        contact=contact_law(stiffness, restitution, friction, rolling_friction),
        wall_contact=contact_law(stiffness, restitution, wall_friction, rolling_friction),
        walls=(MovingWall(Cylinder(radius, axis=(0.0, 1.0, 0.0)), angular_velocity=spin),),
        gravity=(0.0, 0.0, -gravity),
        period=(np.inf, float(width), np.inf),
        contact_outputs=True,
        dtype=dtype,
    )
    return Draft(
        system=system,
        state0=system.start(x),
        outputs={**system.outputs(), "slope": lambda t, s: _slope(system.masses, s[0])},
        invariants=system.invariants(),
        integrator="rodrigues",
        h=lot.step(stiffness),
        scene=wall_scene(lot.diameters, _edges(float(radius), float(width))),
    )


def _bed(lot: Grains, R: float, W: float) -> np.ndarray:
    """Places on a lattice in the lower part of the drum, lowest first."""
    layers, free = max(1, int(W / lot.pitch)), R - 0.6 * lot.largest
    half = int(free / lot.pitch)
    up = lot.pitch * (-half + np.arange(min(2 * half + 1, len(lot.masses))))
    z, x = (a.reshape(-1) for a in np.meshgrid(up, lot.columns(free), indexing="ij"))
    inside = np.hypot(x, z) < free
    x, z = x[inside], z[inside]
    if len(lot.masses) > layers * len(x):
        raise ValueError(
            f"`grains` must be at most {layers * len(x)}, which fill the drum, got {len(lot.masses)}. "
            "Make `radius` or `width` larger."
        )
    y = W / layers * (np.arange(layers) + 0.5)
    places = np.stack((np.repeat(x, layers), np.tile(y, len(x)), np.repeat(z, layers)), axis=1)
    return places[: len(lot.masses)]


def _slope(masses: Array, x: Array) -> Array:
    """Angle of the bed, positive where it is higher at negative x."""
    centre = masses @ x / jnp.sum(masses)
    return jnp.arctan2(-centre[0], -centre[2])


def _edges(R: float, W: float) -> tuple[Any, ...]:
    """Both ends of the drum and lines along it."""
    circle, along = ring(R)[:, [0, 2, 1]], np.array([0.0, W, 0.0])
    ends = [edge(f"end {k + 1}", feet) for k, feet in enumerate((circle, circle + along))]
    feet = circle[:: (len(circle) - 1) // _BARS][:_BARS]
    bars = [edge(f"bar {k + 1}", (a, a + along), turns=True) for k, a in enumerate(feet)]
    return (*ends, *bars)
