"""Shared parts of problems of grains with friction: their law of contact, loose packings, and walls in scenes."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.particles import ContactLaw, Hooke, RollingResistance, TangentialSpring
from polhode.spaces import quaternions
from polhode.viewing.scene.scene import Cloud, Line, Scene

_SHEAR = 2 / 7
"""Stiffness along contacts over that along normals: with both, spheres of even density swing alike."""
_SHEAR_DAMPING = 0.2
_STEP = 0.15
"""Of √(m/k), where dashpots of several contacts need less than about 0.4 with restitutions of 0.3 and more."""
_GAP, _JITTER = 1.08, 0.03
"""Distance of grains at the start, and how far they are moved at random, in diameters of the largest."""
_COLOUR = "#8a94a3"


def contact_law(stiffness: Any, restitution: Any, friction: Any, rolling_friction: Any) -> ContactLaw:
    """Linear springs and dashpots with Coulomb's friction; with resistance to rolling unless that is zero."""
    shear = _SHEAR * stiffness
    return ContactLaw(
        Hooke(stiffness, restitution),
        TangentialSpring(shear, friction, _SHEAR_DAMPING),
        rolling=None if checks.is_zero(rolling_friction) else RollingResistance(shear, rolling_friction),
    )


class Grains(NamedTuple):
    """Spheres of one material. `masses`, `inertias`, `diameters`: shape (n,); `largest`: the largest diameter."""

    masses: np.ndarray
    inertias: np.ndarray
    diameters: np.ndarray
    largest: float

    @property
    def pitch(self) -> float:
        """Distance of neighbours at the start."""
        return _GAP * self.largest

    def columns(self, free: float) -> np.ndarray:
        """Coordinates of neighbours on a line from -`free` to `free`, no more than all grains need in a square."""
        half = min(int(free / self.pitch), int(np.ceil(np.sqrt(len(self.masses)))))
        return self.pitch * np.arange(-half, half + 1)

    def step(self, stiffness: Any) -> float:
        """A step that resolves contacts of this stiffness."""
        if not checks.is_concrete(stiffness):
            return 1e-4
        return float(f"{_STEP * np.sqrt(self.masses.min() / float(stiffness)):.1e}")


def make_grains(count: int, diameter: Any, spread: Any, density: Any, random: np.random.Generator) -> Grains:
    """Grains whose diameters are spread evenly over (1 ± spread) times the mean."""
    D, share = float(diameter), float(spread)
    if not share < 1:
        raise ValueError(f"`spread` must be below 1 (share of the diameter), got {checks.short_repr(spread)}.")
    diameters = D * (1 + share * random.uniform(-1, 1, count))
    masses = float(density) * np.pi / 6 * diameters**3
    return Grains(masses, 0.1 * masses * diameters**2, diameters, D * (1 + share))


def disturb(places: np.ndarray, grains: Grains, random: np.random.Generator) -> np.ndarray:
    """The places, moved a little at random, so that no pile stands by its symmetry."""
    return places + _JITTER * grains.largest * random.uniform(-1, 1, places.shape)


def generator(seed: Any) -> np.random.Generator:
    """The generator of random numbers. Raises ValueError for seeds that aren't whole numbers of 0 or more."""
    if isinstance(seed, bool) or not isinstance(seed, int | np.integer) or seed < 0:
        raise ValueError(f"`seed` must be a whole number, 0 or more, got {checks.short_repr(seed)}.")
    return np.random.default_rng(int(seed))


# --- scenes ---------------------------------------------------------------------------------------------------------


def wall_scene(diameters: np.ndarray, walls: tuple[Line, ...]) -> Scene:
    """Grains as spheres and edges of walls as lines."""
    return Scene((Cloud("grains", lambda t, s: s[0], diameters, "#c58940"), *walls))


def edge(name: str, nodes: Any, turns: bool = False) -> Line:
    """A line of a wall through nodes (k, 3); one that `turns` follows the first wall that moves."""
    fixed = np.asarray(nodes, float)

    def points(t: Any, s: Any) -> Any:
        del t
        if not turns:
            return jnp.asarray(fixed)
        return fixed @ quaternions.to_matrix(s[6][3:7]).T + s[6][:3]

    return Line(name, points, _COLOUR)


def ring(radius: float, segments: int = 48) -> np.ndarray:
    """Points of a circle around the z-axis, the first one twice, shape (segments + 1, 3)."""
    angle = 2 * np.pi / segments * np.arange(segments + 1)
    return radius * np.stack((np.cos(angle), np.sin(angle), 0 * angle), axis=1)
