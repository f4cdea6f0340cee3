"""Questions in a trace about what is going to run it, which each back end answers for itself when it compiles.

A question is a primitive without operands that gives a truth value. Code that is not the same everywhere traces both
ways as branches of a `jax.lax.cond`, of which a back end takes one. JAX itself answers no.
"""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend import core
from jax.interpreters import mlir


def _question(name: str) -> core.Primitive:
    primitive = core.Primitive(name)
    primitive.def_impl(lambda: jnp.zeros((), bool))
    primitive.def_abstract_eval(lambda: ShapedArray((), jnp.dtype(bool)))
    mlir.register_lowering(primitive, mlir.lower_fun(lambda: jnp.zeros((), bool), multiple_results=False))
    return primitive


WITHOUT_LIBRARIES = _question("without_libraries")
"""Whether no library for linear algebra can be called, as in machine code."""

DERIVED = _question("derived")
"""Whether the record itself is going to be differentiated: no loop whose number of rounds only the data give."""


def without_libraries() -> jax.Array:
    """The answer to `WITHOUT_LIBRARIES`, for `jax.lax.cond`."""
    return _asked(WITHOUT_LIBRARIES)


def derived() -> jax.Array:
    """The answer to `DERIVED`, for `jax.lax.cond`."""
    return _asked(DERIVED)


def _asked(question: Any) -> jax.Array:
    return question.bind()
