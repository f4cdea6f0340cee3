"""Operations on few elements in terms of simpler ones."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from polhode.execution.arrays.naming import FOLDED
from polhode.execution.scalars.rewriting import REWRITTEN, as_one_loop, is_batch_of_loops, rewritten


def in_simpler_ones(eqn: Any) -> core.ClosedJaxpr | None:
    """The program that stands for an operation, if there is one."""
    name = eqn.primitive.name
    if name == "dot_general":
        return _products(eqn)
    if name in REWRITTEN and not eqn.params.keys().isdisjoint(("axis", "axes")):
        axes = eqn.params.get("axes") or (eqn.params["axis"],)
        return rewritten(eqn) if _few(eqn, axes) else None
    return as_one_loop(eqn) if is_batch_of_loops(eqn) else None


def _few(eqn: Any, axes: Sequence[int]) -> bool:
    """Whether the first operand has few elements along these axes."""
    return math.prod(eqn.invars[0].aval.shape[d] for d in axes) <= FOLDED


def _products(eqn: Any) -> core.ClosedJaxpr:
    """A product of matrices as a sum of products."""
    (of_a, of_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]

    def run(a: jax.Array, b: jax.Array) -> jax.Array:
        free_a = [d for d in range(a.ndim) if d not in (*of_a, *batch_a)]
        free_b = [d for d in range(b.ndim) if d not in (*of_b, *batch_b)]
        batch = range(len(batch_a))
        a = jnp.expand_dims(
            a.transpose(*batch_a, *free_a, *of_a), [len(batch) + len(free_a) + k for k in range(len(free_b))]
        )
        b = jnp.expand_dims(b.transpose(*batch_b, *free_b, *of_b), [len(batch) + k for k in range(len(free_a))])
        return jnp.sum(a * b, axis=tuple(range(a.ndim - len(of_a), a.ndim)))

    return jax.make_jaxpr(run)(*(jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars))
