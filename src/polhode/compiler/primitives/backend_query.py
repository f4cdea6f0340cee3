"""Primitives whose value the back end supplies at compile time.

A query is a primitive without operands that returns a truth value. Code that differs between back ends traces both
alternatives as branches of a `jax.lax.cond`, of which a back end takes one, or uses `lapack_or`, of which only the
selected one is traced. The value in JAX itself is False.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
from jax.core import ShapedArray
from jax.extend import core
from jax.interpreters import batching, mlir

T = TypeVar("T")


def _query(name: str) -> core.Primitive:
    primitive = core.Primitive(name)
    primitive.def_impl(lambda: jnp.zeros((), bool))
    primitive.def_abstract_eval(lambda: ShapedArray((), jnp.dtype(bool)))
    mlir.register_lowering(primitive, mlir.lower_fun(lambda: jnp.zeros((), bool), multiple_results=False))
    return primitive


NO_LAPACK = _query("without_libraries")
"""Whether LAPACK can't be called, as in machine code."""

DIFFERENTIATED = _query("derived")
"""Whether the trace will be differentiated: no loop whose number of rounds depends on the data."""


def no_lapack() -> jax.Array:
    """The value of `NO_LAPACK`, for `jax.lax.cond`."""
    return _bind(NO_LAPACK)


def is_differentiated() -> jax.Array:
    """The value of `DIFFERENTIATED`, for `jax.lax.cond`."""
    return _bind(DIFFERENTIATED)


def _bind(question: Any) -> jax.Array:
    return question.bind()


ALTERNATIVES = core.Primitive("ways")
"""One of two programs by the value of `NO_LAPACK`, neither of which is traced before that is known.

Parameters: `ways`, functions `(without, by_libraries)` of flat operands, and `types` of the results.
"""

ALTERNATIVES.multiple_results = True


def lapack_or(function: Callable[..., T], fallback: Callable[..., T], like: T, *operands: Any) -> T:
    """`function(*operands)`; `fallback(*operands)` where LAPACK can't be called.

    Both return trees like `like`, and capture no traced values. Where JAX differentiates or batches, it traces both.
    """
    operand_leaves, structure = jax.tree.flatten(operands)
    result_leaves, result_structure = jax.tree.flatten(like)

    def flat(alternative: Callable[..., T]) -> Callable[..., list[Any]]:
        return lambda *args: jax.tree.leaves(alternative(*jax.tree.unflatten(structure, args)))

    params: Any = {
        "ways": (flat(fallback), flat(function)),
        "types": tuple(ShapedArray(jnp.shape(x), jnp.result_type(x)) for x in result_leaves),
    }
    call = jax.custom_jvp(lambda *args: ALTERNATIVES.bind(*args, **params))
    call.defjvp(lambda primals, tangents: jax.jvp(lambda *args: _as_branches(*args, **params), primals, tangents))
    return jax.tree.unflatten(result_structure, call(*operand_leaves))


def _as_branches(*args: Any, ways: tuple[Callable[..., list[Any]], Callable[..., list[Any]]], **_: Any) -> list[Any]:
    """Both alternatives, as branches."""
    return jax.lax.cond(no_lapack(), *ways, *args)


def _by_lapack(*args: Any, ways: tuple[Callable[..., list[Any]], Callable[..., list[Any]]], **_: Any) -> list[Any]:
    return ways[1](*args)


def _batching_rule(args: Sequence[Any], dims: Sequence[int | None], **params: Any) -> tuple[list[Any], list[int]]:
    outs = jax.vmap(lambda *row: _as_branches(*row, **params), in_axes=tuple(dims))(*args)
    return outs, [0] * len(outs)


ALTERNATIVES.def_impl(_by_lapack)
ALTERNATIVES.def_abstract_eval(lambda *_, types, **__: list(types))
batching.primitive_batchers[ALTERNATIVES] = _batching_rule
mlir.register_lowering(ALTERNATIVES, mlir.lower_fun(_by_lapack, multiple_results=True))
