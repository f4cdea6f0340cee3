"""The result of a fit."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float

from polhode import summary


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """Parameters that explain measured motion best, and how well the data determine them.

    - `values`: name → number, or array for parameters that are arrays. - `problem`: with these; a list for several.
    - `names`: of all single numbers, in the order of what follows, k of them.
    - `deviations` (k,): standard deviations. - `covariance` (k, k). - `intervals` (k, 2): at `confidence`, infinite
      where the data don't determine a number. Those of numbers at a bound, `at_bound` (k,), are as if there were none.
    - `residuals`: name → (measured - computed) in the units of the data, for each data set; NaN where data are missing.
    - `noise`: the standard deviation of the data in units of `sigma`, estimated from the residuals: near 1 where
      `sigma` was given and the model fits.
    - `cost`: half the sum of squares in units of `sigma`. - `runs`: of the model, `gradients`: with derivatives.
    - `converged`, `message`: of the optimiser.
    """

    values: dict[str, Any]
    problem: Any
    names: tuple[str, ...]
    deviations: Float[np.ndarray, " k"]
    covariance: Float[np.ndarray, "k k"]
    intervals: Float[np.ndarray, "k 2"]
    confidence: float
    at_bound: np.ndarray
    residuals: tuple[dict[str, np.ndarray], ...]
    noise: float
    cost: float
    runs: int
    gradients: int
    converged: bool
    message: str

    @property
    def correlation(self) -> Float[np.ndarray, "k k"]:
        """Of the estimates: near ±1 where only a combination of two of them is determined."""
        d = np.where(self.deviations > 0, self.deviations, 1.0)
        return self.covariance / np.outer(d, d)

    def _rows(self) -> list[tuple[str, str]]:
        flat = np.concatenate([np.ravel(np.asarray(v)) for v in self.values.values()])
        return [
            (name, f"{x:.6g} ± {d:.2g}  ({low:.6g} … {high:.6g}){' at its bound' if b else ''}")
            for name, x, d, (low, high), b in zip(
                self.names, flat, self.deviations, self.intervals, self.at_bound, strict=True
            )
        ]

    def __repr__(self) -> str:
        state = "converged" if self.converged else f"NOT converged: {self.message}"
        rows = "\n".join(f"  {name} = {text}" for name, text in self._rows())
        return f"Fit ({state}; noise {self.noise:.3g}; {self.confidence:.0%} intervals)\n{rows}"

    def _repr_html_(self) -> str:
        more = [("noise", f"{self.noise:.4g}"), ("message", self.message)]
        return summary.html(f"Fit, {self.confidence:.0%} intervals", [*self._rows(), *more])
