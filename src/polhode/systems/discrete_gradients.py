"""Discrete gradients: averages of a derivative over a step that satisfy the product with the step exactly."""

from __future__ import annotations

import abc
from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.spaces.base import norm

Point = Float[Array, " n"]
Function = Callable[[Point], Array]

_SMALL = float(np.finfo(np.float64).eps) ** (1 / 3)
"""Relative step below which the correction is smaller than round-off and is left out."""


class Through(eqx.Module):
    r"""The composition outer(inner(x)) with inner functions of degree 2; its discrete gradient is taken in two parts.

    $\bar\nabla f = D\,\mathrm{inner}(\bar x)^T\,\bar\nabla\mathrm{outer}(\mathrm{inner}(x_0),
    \mathrm{inner}(x_1))$: exact, because midpoint derivatives of quadratic functions are. With invariants of a group
    for `inner` it is the G-equivariant discrete gradient: it respects what the group leaves unchanged.

    **Arguments:**

    - `outer`: callable, array of shape (k,) → number or array.
    - `inner`: callable, the same arguments as the whole → shape (k,); quadratic in all of them together.

    ??? cite "Reference"
        O. Gonzalez, Time integration and discrete Hamiltonian systems, J. Nonlinear Sci. 6 (1996), section 3.
    """

    outer: Callable[[Array], Array]
    inner: Callable[..., Array]

    def __call__(self, *x: Array) -> Array:
        return self.outer(self.inner(*x))


class AbstractDiscreteGradient(eqx.Module):
    r"""$\bar\nabla f(x_0, x_1)$ with $\bar\nabla f\cdot(x_1 - x_0) = f(x_1) - f(x_0)$, second-order close to ∇f(x̄)."""

    def __call__(self, f: Function, x0: Point, x1: Point) -> Array:
        """The discrete gradient of a scalar function, shape (n,), or of one of shape (k,), shape (k, n)."""
        if isinstance(f, Through):
            rows = self(f.outer, f.inner(x0), f.inner(x1))
            return rows @ jax.jacfwd(f.inner)(0.5 * (x0 + x1))
        return _with_correction(f, x0, x1, self.average(f, x0, x1))

    def roundoff_gain(self, f: Function, x0: Point, x1: Point) -> Float[Array, ""]:
        """Factor by which the correction, a division by the step, amplifies the round-off ε of f."""
        if isinstance(f, Through):
            rows = jax.jacfwd(f.inner)(0.5 * (x0 + x1))
            return norm(rows.reshape(-1)) * self.roundoff_gain(f.outer, f.inner(x0), f.inner(x1))
        safe, square = _square(x0, x1)
        size = jnp.sum(jnp.abs(f(x0)) + jnp.abs(f(x1)))
        return jnp.where(safe, size / jnp.sqrt(jnp.where(safe, square, 1.0)), 0.0)

    @abc.abstractmethod
    def average(self, f: Function, x0: Point, x1: Point) -> Array:
        """An average of the derivative, before the correction along x₁ - x₀."""


class Gonzalez(AbstractDiscreteGradient):
    r"""The midpoint discrete gradient $\nabla f(\bar x) + \frac{f(x_1)-f(x_0)-\nabla f(\bar x)\cdot\Delta x}
    {|\Delta x|^2}\Delta x$; for quadratic functions it is the gradient at the midpoint.

    ??? cite "Reference"
        O. Gonzalez, Time integration and discrete Hamiltonian systems, J. Nonlinear Sci. 6 (1996).
    """

    def average(self, f: Function, x0: Point, x1: Point) -> Array:
        return _derivative(f, 0.5 * (x0 + x1))


class MeanValue(AbstractDiscreteGradient):
    r"""The mean value $\int_0^1\nabla f(x_0 + s\Delta x)\,ds$, by Gauss quadrature; what that leaves out is corrected
    along Δx. Up to the correction it doesn't depend on the scales of the coordinates.

    **Arguments:**

    - `points`: of the quadrature, exact for polynomials f up to degree 2 `points`.

    ??? cite "Reference"
        A. Harten, P. Lax, B. van Leer (1983); R. McLachlan, G. Quispel, N. Robidoux, Geometric integration using
        discrete gradients, Phil. Trans. R. Soc. A 357 (1999).
    """

    points: int = eqx.field(static=True, default=4)

    def __check_init__(self) -> None:
        checks.count("points", self.points, "points of the quadrature")

    def average(self, f: Function, x0: Point, x1: Point) -> Array:
        nodes, weights = np.polynomial.legendre.leggauss(self.points)
        terms = [0.5 * w * _derivative(f, x0 + 0.5 * (1 + s) * (x1 - x0)) for s, w in zip(nodes, weights, strict=True)]
        return sum(terms[1:], start=terms[0])


def _derivative(f: Function, x: Point) -> Array:
    scalar = jax.eval_shape(f, x).shape == ()
    return jax.grad(f)(x) if scalar else jax.jacfwd(f)(x)


def _with_correction(f: Function, x0: Point, x1: Point, J: Array) -> Array:
    step = x1 - x0
    safe, square = _square(x0, x1)
    lack = (f(x1) - f(x0) - J @ step) / jnp.where(safe, square, 1.0)
    return J + jnp.where(safe, lack[..., None] * step, 0.0)


def _square(x0: Point, x1: Point) -> tuple[Array, Array]:
    """Whether the step is long enough for a correction, and its square."""
    step = x1 - x0
    square = step @ step
    return square > _SMALL**2 * (x0 @ x0 + x1 @ x1), square
