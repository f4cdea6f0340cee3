"""Straight beams of two-node elements: consistent mass and stiffness matrices of Euler-Bernoulli beams in space."""

from __future__ import annotations

import dataclasses

import numpy as np
import scipy


@dataclasses.dataclass(frozen=True)
class Beam:
    """A beam along e1 from the origin.

    - `length`; `area`, `moment`, `torsion`: A, I (about both axes), I_T. - `modulus`, `shear`: E, G. - `density`.
    """

    length: float = 1.0
    area: float = 1e-4
    moment: float = 1e-8
    torsion: float = 2e-8
    modulus: float = 7e10
    shear: float = 2.7e10
    density: float = 2700.0

    @property
    def bending(self) -> float:
        """EI."""
        return self.modulus * self.moment

    @property
    def line_mass(self) -> float:
        """Mass per length."""
        return self.density * self.area

    def points(self, n: int) -> np.ndarray:
        """Nodes of n elements."""
        return np.linspace(0.0, 1.0, n + 1)[:, None] * np.array([self.length, 0.0, 0.0])

    def matrices(self, n: int, sparse: bool = False) -> tuple[np.ndarray, np.ndarray]:
        """Mass and stiffness of n elements, six displacements a node."""
        M, K = self._element(self.length / n)
        mass, stiffness = (scipy.sparse.lil_array((6 * n + 6, 6 * n + 6)) for _ in range(2))
        for e in range(n):
            at = slice(6 * e, 6 * e + 12)
            mass[at, at] += M
            stiffness[at, at] += K
        return (mass.tocsr(), stiffness.tocsr()) if sparse else (mass.toarray(), stiffness.toarray())

    def _element(self, h: float) -> tuple[np.ndarray, np.ndarray]:
        M, K = np.zeros((12, 12)), np.zeros((12, 12))
        rod = np.array([[2.0, 1.0], [1.0, 2.0]]) / 6.0
        spring = np.array([[1.0, -1.0], [-1.0, 1.0]])
        for at, mass, stiffness in (
            ((0, 6), self.line_mass * h, self.modulus * self.area / h),
            ((3, 9), 2 * self.density * self.moment * h, self.shear * self.torsion / h),
        ):
            M[np.ix_(at, at)] += mass * rod
            K[np.ix_(at, at)] += stiffness * spring
        bent = self.bending / h**3 * np.array(
            [[12, 6 * h, -12, 6 * h], [6 * h, 4 * h**2, -6 * h, 2 * h**2], [-12, -6 * h, 12, -6 * h],
             [6 * h, 2 * h**2, -6 * h, 4 * h**2]]
        )  # fmt: skip
        heavy = self.line_mass * h / 420 * np.array(
            [[156, 22 * h, 54, -13 * h], [22 * h, 4 * h**2, 13 * h, -3 * h**2], [54, 13 * h, 156, -22 * h],
             [-13 * h, -3 * h**2, -22 * h, 4 * h**2]]
        )  # fmt: skip
        for at, signs in (((1, 5, 7, 11), (1, 1, 1, 1)), ((2, 4, 8, 10), (1, -1, 1, -1))):
            turn = np.outer(signs, signs)
            M[np.ix_(at, at)] += heavy * turn
            K[np.ix_(at, at)] += bent * turn
        return M, K
