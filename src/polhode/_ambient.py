"""The one place that asks JAX a question its public interface has no answer for."""

from __future__ import annotations

from jax._src.core import trace_state_clean


def inside_transformation() -> bool:
    """Whether this code runs inside `jit`, `grad`, `jvp`, `vmap` or the like.

    Values closed over by a user's function can be traced there although none of the arguments is.
    """
    return not trace_state_clean()
