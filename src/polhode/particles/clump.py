"""Clumps: rigid bodies of spheres, with their mass, centre and inertia."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, Literal

import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.particles.union_of_balls import moments_of_sum, moments_of_union

Overlap = Literal["union", "sum"]

_ROUNDING = 1e-12
"""Size of products of inertia, relative, below which the axes of the frame are principal axes."""


@dataclasses.dataclass(frozen=True, eq=False)
class Clump:
    """A rigid body of spheres, which may overlap, in a frame of the user's choice; for `Clumps`.

    **Arguments:**

    - `centres`: of the spheres, shape (k, 3). - `diameters`: shape (k,), or one number for all.
    - `mass`. - `inertia`: about the centre of mass along the axes of the frame, three moments or a symmetric (3, 3).
    - `centre`: the centre of mass, shape (3,); the origin of the frame by default.

    `Clump.from_density` computes the last three. Spheres are where contacts are; mass and inertia may be those of the
    body that they stand for.

    Raises ValueError for shapes that don't fit, and moments that no body has.
    """

    centres: np.ndarray
    diameters: np.ndarray
    mass: float
    inertia: np.ndarray
    centre: np.ndarray = dataclasses.field(default_factory=lambda: np.zeros(3))

    def __post_init__(self) -> None:
        centres, diameters = _spheres(self.centres, self.diameters)
        inertia = checks.numbers("inertia", self.inertia, "of the clump about its centre of mass").astype(float)
        inertia = np.diag(inertia) if inertia.shape == (3,) else inertia
        if inertia.shape != (3, 3) or not np.allclose(inertia, inertia.T, rtol=_ROUNDING, atol=0):
            raise ValueError(
                f"`inertia` must be three moments or a symmetric (3, 3) matrix, got {short_repr(self.inertia)}."
            )
        values = {
            "centres": centres,
            "diameters": diameters,
            "mass": float(checks.positive("mass", self.mass, (), "of the clump")),
            "inertia": inertia,
            "centre": np.asarray(checks.array("centre", self.centre, (3,), "centre of mass"), float),
        }
        for name, value in values.items():
            object.__setattr__(self, name, value)
        low, middle, high = np.sort(self.moments)
        if not low > 0 or high > (low + middle) * (1 + 1e-9):
            raise ValueError(
                f"`inertia` has the principal moments {low:.4g}, {middle:.4g} and {high:.4g}. They must be greater "
                "than zero, and none may be larger than the sum of the others."
            )

    @classmethod
    def from_density(cls, centres: Any, diameters: Any, density: Any, overlap: Overlap = "union") -> Clump:
        """A clump of homogeneous spheres.

        **Arguments:**

        - `centres`, `diameters`: see `Clump`. - `density`: mass per volume.
        - `overlap`: "union", where spheres overlap there is material once (by quadrature, to 1e-10), or "sum", each
          sphere counts in full, so that mass and inertia of overlaps count as often as spheres share them. Without
          overlaps both are the same.
        """
        checks.choice("overlap", overlap, ("union", "sum"))
        x, sizes = _spheres(centres, diameters)
        rho = float(checks.positive("density", density, (), "mass per volume"))
        volume, first, second = (moments_of_union if overlap == "union" else moments_of_sum)(x, 0.5 * sizes)
        centre = first / volume
        second = second - volume * np.outer(centre, centre)
        second = 0.5 * (second + second.T)
        return cls(x, sizes, rho * volume, rho * (np.trace(second) * np.eye(3) - second), centre)

    @property
    def moments(self) -> np.ndarray:
        """Principal moments of inertia."""
        return self._principal[0]

    @property
    def axes(self) -> np.ndarray:
        """Principal axes in the frame, as columns of a rotation matrix; those of the frame where these are some."""
        return self._principal[1]

    @property
    def arms(self) -> np.ndarray:
        """Centres of the spheres from the centre of mass, along the principal axes."""
        return (self.centres - self.centre) @ self.axes

    @functools.cached_property
    def _principal(self) -> tuple[np.ndarray, np.ndarray]:
        diagonal = np.diag(self.inertia)
        if np.max(np.abs(self.inertia - np.diag(diagonal))) <= _ROUNDING * np.max(np.abs(diagonal)):
            return diagonal, np.eye(3)
        moments, axes = np.linalg.eigh(self.inertia)
        axes[:, 2] *= np.sign(np.linalg.det(axes))
        return moments, axes


def _spheres(centres: Any, diameters: Any) -> tuple[np.ndarray, np.ndarray]:
    """Centres and diameters as arrays of shapes (k, 3) and (k,)."""
    x = checks.numbers("centres", centres, "centres of the spheres of a clump").astype(float)
    if x.ndim != 2 or x.shape[1] != 3 or not len(x):
        raise ValueError(f"`centres` must have shape (k, 3), one row for each sphere of the clump, got {x.shape}.")
    x = np.asarray(checks.array("centres", x, x.shape, "centres of the spheres of a clump"))
    shape = () if np.ndim(diameters) == 0 else (len(x),)
    sizes = np.asarray(checks.positive("diameters", diameters, shape, "diameters of the spheres of a clump"), float)
    return x, np.broadcast_to(sizes, (len(x),)).copy()
