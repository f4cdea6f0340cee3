"""Operations in terms of simpler ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from polhode.compiler.arrays.op_kinds import MAX_UNROLLED_REDUCTION
from polhode.compiler.scalars.decompositions import DECOMPOSITIONS, decompose, is_batch_of_loops, merge_loops


def rewrite(eqn: Any) -> core.ClosedJaxpr | None:
    """The program that replaces an operation, or None."""
    name = eqn.primitive.name
    if name in _REWRITES:
        return _REWRITES[name](eqn)
    if name in DECOMPOSITIONS and not eqn.params.keys().isdisjoint(("axis", "axes")):
        axes = eqn.params.get("axes") or (eqn.params["axis"],)
        if _is_short(eqn, axes):
            return decompose(eqn)
        return _trace(_POSITIONS[name](axes[0], eqn.params["index_dtype"]), eqn) if name in _POSITIONS else None
    return merge_loops(eqn) if is_batch_of_loops(eqn) else None


def _is_short(eqn: Any, axes: Sequence[int]) -> bool:
    """Whether the first operand has few elements along these axes."""
    return math.prod(eqn.invars[0].aval.shape[d] for d in axes) <= MAX_UNROLLED_REDUCTION


def _position_of(best: Callable[..., jax.Array]) -> Callable[[int, Any], Callable[[jax.Array], jax.Array]]:
    """The position of the largest or smallest element; the first NaN counts as such."""

    def along(axis: int, dtype: Any) -> Callable[[jax.Array], jax.Array]:
        def position(x: jax.Array) -> jax.Array:
            no_number = x != x
            is_best = jnp.where(jnp.any(no_number, axis, keepdims=True), no_number, x == best(x, axis, keepdims=True))
            return jnp.min(jnp.where(is_best, jax.lax.broadcasted_iota(dtype, x.shape, axis), x.shape[axis] - 1), axis)

        return position

    return along


_POSITIONS = {"argmax": _position_of(jnp.max), "argmin": _position_of(jnp.min)}


def _products(eqn: Any) -> core.ClosedJaxpr:
    """A product of matrices as a sum of products."""
    return _product(eqn.params["dimension_numbers"], *_types(eqn))


@functools.lru_cache(maxsize=1024)
def _product(dimension_numbers: Any, *types: jax.ShapeDtypeStruct) -> core.ClosedJaxpr:
    """Products make up a quarter of the operations of a tree of bodies, but are of few kinds: each is traced once."""
    (of_a, of_b), (batch_a, batch_b) = dimension_numbers

    def product(a: jax.Array, b: jax.Array) -> jax.Array:
        free_a = [d for d in range(a.ndim) if d not in (*of_a, *batch_a)]
        free_b = [d for d in range(b.ndim) if d not in (*of_b, *batch_b)]
        batch = range(len(batch_a))
        a = jnp.expand_dims(
            a.transpose(*batch_a, *free_a, *of_a), [len(batch) + len(free_a) + k for k in range(len(free_b))]
        )
        b = jnp.expand_dims(b.transpose(*batch_b, *free_b, *of_b), [len(batch) + k for k in range(len(free_a))])
        return jnp.sum(a * b, axis=tuple(range(a.ndim - len(of_a), a.ndim)))

    return jax.make_jaxpr(product)(*types)


def _pad(eqn: Any) -> core.ClosedJaxpr:
    """Padding as concatenation with constant arrays."""
    config = eqn.params["padding_config"]

    def pad(x: jax.Array, fill: jax.Array) -> jax.Array:
        for d, (low, high, inner) in enumerate(config):
            x = _pad_edges(d, _dilate(d, x, fill, inner), fill, low, high)
        return x

    return _trace(pad, eqn)


def _dilate(d: int, x: jax.Array, fill: jax.Array, inner: int) -> jax.Array:
    """Inserts `inner` elements between any two along an axis."""
    n = x.shape[d]
    if not inner or not n:
        return x
    x = jnp.expand_dims(x, d + 1)
    between = jnp.broadcast_to(fill, (*x.shape[: d + 1], inner, *x.shape[d + 2 :]))
    interleaved = jax.lax.concatenate((x, between), d + 1).reshape(*x.shape[:d], n * (inner + 1), *x.shape[d + 2 :])
    return jax.lax.slice_in_dim(interleaved, 0, n + (n - 1) * inner, axis=d)


def _pad_edges(d: int, x: jax.Array, fill: jax.Array, low: int, high: int) -> jax.Array:
    """Adds edges along an axis; negative ones are cut off."""
    n = x.shape[d]
    wide = [jnp.broadcast_to(fill, (*x.shape[:d], max(edge, 0), *x.shape[d + 1 :])) for edge in (low, high)]
    parts = [part for part in (wide[0], x, wide[1]) if part.shape[d]]
    whole = jax.lax.concatenate(parts, d) if len(parts) > 1 else parts[0] if parts else x
    begin = max(-low, 0)
    return jax.lax.slice_in_dim(whole, begin, begin + n + low + high, axis=d)


def _dynamic_update_slice(eqn: Any) -> core.ClosedJaxpr:
    """A scatter of one window."""
    rank = len(eqn.invars[0].aval.shape)
    dims = jax.lax.ScatterDimensionNumbers(tuple(range(rank)), (), tuple(range(rank)))

    def update(x: jax.Array, part: jax.Array, *begins: jax.Array) -> jax.Array:
        if not rank:
            return part
        where = jnp.stack([jnp.asarray(begin, jnp.int64) for begin in begins])
        return jax.lax.scatter(x, where, part, dims, mode="clip")

    return _trace(update, eqn)


def _cumulative_sum(eqn: Any) -> core.ClosedJaxpr | None:
    """Sums along one axis as a loop over its elements."""
    axis, last = eqn.params["axis"], eqn.params["reverse"]
    if _is_short(eqn, (axis,)):
        return decompose(eqn)

    def add(total: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        total = total + row
        return total, total

    def cumulative_sum(x: jax.Array) -> jax.Array:
        rows = jnp.moveaxis(x, axis, 0)
        return jnp.moveaxis(jax.lax.scan(add, jnp.zeros_like(rows[0]), rows, reverse=last)[1], 0, axis)

    return _trace(cumulative_sum, eqn)


def _zeros(eqn: Any) -> core.ClosedJaxpr:
    """The array into which a scan writes its rows."""
    like: Any = eqn.outvars[0].aval
    return _trace(lambda *_: jnp.zeros(like.shape, like.dtype), eqn)


def _trace(function: Callable[..., jax.Array], eqn: Any) -> core.ClosedJaxpr:
    return jax.make_jaxpr(function)(*_types(eqn))


def _types(eqn: Any) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]


_REWRITES: dict[str, Callable[[Any], core.ClosedJaxpr | None]] = {
    "dot_general": _products,
    "pad": _pad,
    "cumsum": _cumulative_sum,
    "dynamic_update_slice": _dynamic_update_slice,
    "empty": _zeros,
    "empty2": _zeros,
}
