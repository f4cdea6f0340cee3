"""Multipliers and exponents of a periodic motion, by Floquet's theory."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Complex, Float

from polhode import summary


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class FloquetModel:
    r"""$x(t + T) = M\,x(t)$ for small deviations from a periodic motion at one of its states.

    - `monodromy` (k, k): M. - `period`: T.
    - `basis` (dim, k): the deviations as elements of the algebra of `system.state_space`, as of a `LinearModel`.
    - `turn` (3,): rotation vector in rad by which the space is turned for the end of the period to fall on its start,
      zero where the motion itself is periodic. None of systems without bodies.
    - `closure`: how far the motion is from closing, as a fraction of its size and speeds, in rad of attitudes.
    - `accuracy`: relative error that M may have, for `stable`: of the run, and of the closure.
    - `t`, `state`: where the period starts.
    """

    monodromy: Float[np.ndarray, "k k"]
    period: float
    basis: Float[np.ndarray, "dim k"]
    turn: Float[np.ndarray, "3"] | None
    closure: float
    accuracy: float
    t: float
    state: Any

    @property
    def multipliers(self) -> Complex[np.ndarray, " k"]:
        """Eigenvalues μ of M, the largest first."""
        values = np.linalg.eigvals(self.monodromy).astype(complex)
        return values[np.argsort(-np.abs(values), kind="stable")]

    @property
    def exponents(self) -> Complex[np.ndarray, " k"]:
        """Log μ / T in the order of the multipliers; imaginary parts are known up to multiples of 2π / T."""
        with np.errstate(divide="ignore"):
            return np.log(self.multipliers) / self.period

    @property
    def stable(self) -> bool:
        """Whether no multiplier lies outside of the unit circle by more than the root of the error of M.

        By the root of the error pairs of equal ones come apart, which every motion with an energy or a symmetry has.
        """
        margin = np.sqrt(self.accuracy * max(1.0, float(np.linalg.norm(self.monodromy))))
        return bool(np.all(np.abs(self.multipliers) <= 1 + margin))

    def __repr__(self) -> str:
        k = len(self.monodromy)
        values = ", ".join(f"{x:.6g}" for x in self.multipliers[:6])
        more = ", …" if k > 6 else ""
        text = f"multipliers {values}{more}; closure {self.closure:.2g}"
        return f"FloquetModel({k} states, period {self.period:.6g}; {text})"

    def _repr_html_(self) -> str:
        rows = [
            ("period", f"{self.period:.9g}"),
            ("multipliers", ", ".join(f"{x:.6g}" for x in self.multipliers)),
            ("stable", "yes" if self.stable else "no"),
            ("closure", f"{self.closure:.3g}"),
        ]
        return summary.html("Floquet model", rows)
