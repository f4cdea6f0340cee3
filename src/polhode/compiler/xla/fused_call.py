"""Loops that XLA's CPU backend compiles, with all inside, into one machine function.

It does so by itself for loops that touch less than a kilobyte; a larger scalar loop would otherwise run as hundreds of
separately called kernels, ten to thirty times slower. Other backends ignore the attributes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core


def in_one_function(jaxpr: core.ClosedJaxpr, args: Sequence[Any]) -> list[Any]:
    """The results of a trace that consists of one call, `jax.jit` of a function."""
    (call,) = jaxpr.eqns
    # Bound here with its body already traced: only the call may have the attributes, not its body.
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        values = dict(zip((*jaxpr.jaxpr.constvars, *jaxpr.jaxpr.invars), (*jaxpr.consts, *args), strict=True))
        outs = call.primitive.bind(*(values[v] for v in call.invars), **call.params)
    # Otherwise JAX drops returned inputs that are not used, and XLA aborts on those that only seem to be read.
    outs = jax.lax.optimization_barrier(outs)
    results = dict(zip(call.outvars, outs, strict=True))
    return [v.val if isinstance(v, core.Literal) else results.get(v, values.get(v)) for v in jaxpr.jaxpr.outvars]


def hidden_one() -> jax.Array:
    """A 1 that XLA can't fold, see `XlaBackend`; to be created outside the functions that divide by it."""
    return jax.lax.optimization_barrier(jnp.ones(()))
