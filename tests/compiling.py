"""Programs that run once are compiled with as little effort as possible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax

EFFORT: Any = {"xla_backend_optimization_level": 0, "xla_llvm_disable_expensive_passes": True}


def compiled(function: Callable[..., Any], *arguments: Any) -> Any:
    """`function` compiled for arguments like these."""
    return jax.jit(function).lower(*arguments).compile(EFFORT)


def quick(function: Callable[..., Any], *arguments: Any) -> Any:
    """The result of `function` as one compiled program."""
    return compiled(function, *arguments)(*arguments)
