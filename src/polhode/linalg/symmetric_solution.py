"""Solutions of symmetric saddle-point systems, differentiated by their equations instead of their factorisation."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.compiler.primitives.backend_query import is_differentiated

Pair = tuple[Float[Array, " n"], Float[Array, " m"]]


def solve_symmetric(
    product: Callable[[Array, Array], Pair], solve: Callable[[Array, Array], Pair], r: Array, s: Array
) -> Pair:
    r"""The solution of $K y = b$ with b = (r, s), for a symmetric matrix K.

    In programs that are differentiated it has the derivative $K^{-1}(\dot b - \dot K y)$, from one more solution with
    the same factors and the derivative of `product` at y. To differentiate the factorisation takes several times its
    operations, and the entries of the matrix, which `product` may not need.

    - `product`: K y, with whatever is differentiated. - `solve`: from b to y, with factors of K.
    """
    n, m = r.size, s.size

    def on_vectors(function: Callable[[Array, Array], Pair]) -> Callable[[Array], Array]:
        """The function of both parts in one array: JAX can't differentiate where only one of several has a tangent."""
        return (lambda y: jnp.concatenate(function(y[:n], y[n:]))) if m else lambda y: function(y, jnp.zeros(0))[0]

    def implicit(b: Array) -> Array:
        return jax.lax.custom_linear_solve(on_vectors(product), b, lambda _, c: direct(c), symmetric=True)

    direct = jax.jit(on_vectors(solve))  # Traced once for both alternatives.
    y = jax.lax.cond(is_differentiated(), implicit, direct, jnp.concatenate((r, s)) if m else r)
    return y[:n], y[n:]
