"""Linear model of a system about a state: matrices, names, and their analysis."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from jaxtyping import Float
from scipy import linalg

from polhode import summary

# What SciPy returns depends on options that type checkers don't follow.
_eig: Any = linalg.eig

_LAST_PLACES = 16
"""Error of the entries of A, in units of the last place of the largest."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class LinearModel:
    r"""$\dot x = A x + B\,\delta u + c,\ \delta y = C x + D\,\delta u$ for small deviations from a state.

    - `A` (k, k), `B` (k, inputs), `C` (outputs, k), `D` (outputs, inputs).
    - `offset` (k,): c, what accelerates at the state itself; zero at equilibria and in steady motions.
    - `state_names`, `input_names`, `output_names`.
    - `y0` (outputs,): the outputs at the state.
    - `turn` (3,): angular velocity, in the inertial frame, of the frame in which deviations are measured: a frame that
      turns with Ω has s ± iΩ where the inertial frame has s. None where it is the frame of the coordinates: of systems
      without bodies, and where `steady` is False.
    - `steady`: whether coefficients are constant along the motion; False only of `anyway=True`.
    - `basis` (dim, k): the deviations as elements of the algebra of `system.state_space`, $\delta = \mathtt{basis}\,x$,
      so that the state is `move(state, basis @ x)`. - `t`, `state`: where.
    """

    A: Float[np.ndarray, "k k"]
    B: Float[np.ndarray, "k inputs"]
    C: Float[np.ndarray, "outputs k"]
    D: Float[np.ndarray, "outputs inputs"]
    offset: Float[np.ndarray, " k"]
    state_names: tuple[str, ...]
    input_names: tuple[str, ...]
    output_names: tuple[str, ...]
    y0: Float[np.ndarray, " outputs"]
    basis: Float[np.ndarray, "dim k"]
    t: float
    state: Any
    turn: Float[np.ndarray, "3"] | None = None
    steady: bool = True

    @property
    def eigenvalues(self) -> np.ndarray:
        """Of A, in the order of |s|."""
        values = np.linalg.eigvals(self.A)
        return values[np.argsort(np.abs(values), kind="stable")]

    @property
    def stable(self) -> bool | None:
        """Whether no eigenvalue has a positive real part beyond round-off; None if it isn't `steady`.

        That is 1e-7 of the largest |s|, the root by which pairs of equal ones come apart, or what an error of A in its
        last places makes of the eigenvalue: more for bodies that are fast or far away.
        """
        if not self.steady:
            return None
        values, left, right = _eig(self.A, left=True, right=True)
        overlap = np.abs(np.sum(np.conj(left) * right, axis=0))
        error = _LAST_PLACES * np.finfo(float).eps * np.linalg.norm(self.A, 2) if len(values) else 0.0
        margin = 1e-7 * np.max(np.abs(values), initial=0.0) * overlap
        return bool(np.all(np.real(values) * overlap <= np.maximum(margin, error)))

    @property
    def controllable(self) -> int:
        """Rank of the controllability matrix: dimension of the part of the state that the inputs reach."""
        return _reachable_dimension(self.A, self.B)

    @property
    def observable(self) -> int:
        """Rank of the observability matrix: dimension of the part of the state that the outputs determine."""
        return _reachable_dimension(self.A.T, self.C.T)

    def to_scipy(self) -> Any:
        """As a `scipy.signal.StateSpace`."""
        from scipy.signal import StateSpace

        return StateSpace(self.A, self.B, self.C, self.D)

    def __repr__(self) -> str:
        k, m, p = len(self.A), self.B.shape[1], len(self.C)
        offset = "" if not np.any(self.offset) else f", offset up to {np.max(np.abs(self.offset)):.3g}"
        values = ", ".join(f"{s:.6g}" for s in self.eigenvalues[:6])
        more = ", …" if k > 6 else ""
        frame = f"; {self._frame()}" if self._frame() else ""
        return f"LinearModel({k} states, {m} inputs, {p} outputs{offset}; eigenvalues {values}{more}{frame})"

    def _frame(self) -> str:
        """In which frame deviations are measured, if that is not an inertial one."""
        if not self.steady:
            return "coefficients of one instant"
        if self.turn is None or not np.any(self.turn):
            return ""
        return f"in a frame that turns with ({', '.join(f'{x:.6g}' for x in self.turn)})"

    def _repr_html_(self) -> str:
        rows = [
            ("states", ", ".join(self.state_names)),
            ("inputs", ", ".join(self.input_names)),
            ("outputs", ", ".join(self.output_names)),
            ("eigenvalues", ", ".join(f"{s:.6g}" for s in self.eigenvalues)),
            ("stable", {None: "", True: "yes", False: "no"}[self.stable]),
            ("frame", self._frame()),
        ]
        return summary.html("Linear model", [row for row in rows if row[1]])


def _reachable_dimension(A: np.ndarray, B: np.ndarray) -> int:
    """Dimension of the smallest invariant subspace of A that contains the columns of B, direction by direction."""
    scale = np.max(np.abs(A), initial=0.0) or 1.0
    basis, new = np.zeros((len(A), 0)), B
    while new.shape[1]:
        rest = new - basis @ (basis.T @ new)
        rest = rest - basis @ (basis.T @ rest)
        u, sizes, _ = np.linalg.svd(rest, full_matrices=False)
        keep = u[:, sizes > 1e-10 * max(np.linalg.norm(new), np.finfo(float).tiny)]
        basis, new = np.hstack((basis, keep)), A @ keep / scale
    return basis.shape[1]
