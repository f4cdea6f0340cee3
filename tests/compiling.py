"""Programs that run once: evaluated without being compiled, or compiled with as little effort as possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from polhode.compiler.numpy.interpreter import from_jaxpr

EFFORT: Any = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compiled(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function` compiled by XLA for arguments like these."""
    return jax.jit(_retraced(function)).lower(*arguments).compile(EFFORT)


def quick(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `function` as one compiled program."""
    return compiled(function, *arguments)(*arguments)


def evaluated(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `function` by NumPy, operation by operation: where compiling takes longer than that."""
    closed, shapes = jax.make_jaxpr(_retraced(function), return_shape=True)(*arguments)
    with np.errstate(all="ignore"):
        found = from_jaxpr(closed)([np.asarray(x) for x in jax.tree.leaves(arguments)])
    return jax.tree.unflatten(jax.tree.structure(shapes), [jnp.asarray(x) for x in found])


def _retraced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The same as another function, of which JAX has no trace from before a monkeypatch."""
    return lambda *arguments: function(*arguments)
