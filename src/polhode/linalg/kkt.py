"""Saddle-point systems of constrained mechanics: one interface, several ways to solve them."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any

import equinox as eqx
from jaxtyping import Array, Float

from polhode.linalg.blocks import Matrix
from polhode.modules import Module

Factors = Any
"""Data of a factorisation: a pytree of arrays, so that a carry can hold it from step to step."""


class AbstractKKT(Module):
    r"""Solves $\begin{pmatrix}A & P^T\\ Q & -E\end{pmatrix}\begin{pmatrix}x\\ \lambda\end{pmatrix} =
    \begin{pmatrix}r\\ s\end{pmatrix}$ for matrices of one sparsity.

    A acts on velocities (n×n), P and Q are constraint Jacobians (m×n, m may be 0) at two configurations, often the
    same one; E is a diagonal compliance, zero unless given. Factors can be kept and used again, which is how modified
    Newton methods save time. Methods are differentiable in both modes.
    """

    n: eqx.AbstractVar[int]
    m: eqx.AbstractVar[int]

    @abc.abstractmethod
    def factor(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> Factors:
        """Factorise the matrix."""

    def factor_symmetric(self, A: Matrix, P: Matrix, Q: Matrix, E: Float[Array, " m"] | None = None) -> Factors:
        """The same for symmetric A, such as a mass matrix."""
        # Solvers that know no compliance do without the argument.
        return self.factor(A, P, Q) if E is None else self.factor(A, P, Q, E)

    @abc.abstractmethod
    def solve(
        self, factors: Factors, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        """x and λ. A singular matrix gives infinite or NaN numbers, which integrators turn into a result code."""

    def over(self, other: AbstractKKT) -> AbstractKKT:
        """Another solver for the same matrices, with the same treatment of constraints that lose rank."""
        return other

    def direct(self, A: Matrix, P: Matrix, Q: Matrix) -> Callable[[Array, Array], tuple[Array, Array]]:
        """From r and s to x and λ for E = 0 and symmetric A, by one factorisation, without a compliance."""
        factors = self.factor_symmetric(A, P, Q)
        return lambda r, s: self.solve(factors, r, s)

    def solution(
        self, A: Matrix, P: Matrix, Q: Matrix, r: Float[Array, " n"], s: Float[Array, " m"]
    ) -> tuple[Float[Array, " n"], Float[Array, " m"]]:
        """The result of `direct` for one right-hand side."""
        return self.direct(A, P, Q)(r, s)
