"""Operations on few elements in terms of simpler ones."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
from jax.extend import core

from polhode.compiler.arrays.op_kinds import FOLDED
from polhode.compiler.scalars.decompositions import REWRITTEN, as_one_loop, is_batch_of_loops, rewritten


def in_simpler_ones(eqn: Any) -> core.ClosedJaxpr | None:
    """The program that stands for an operation, if there is one."""
    name = eqn.primitive.name
    if name in _SIMPLER:
        return _SIMPLER[name](eqn)
    if name in REWRITTEN and not eqn.params.keys().isdisjoint(("axis", "axes")):
        axes = eqn.params.get("axes") or (eqn.params["axis"],)
        return rewritten(eqn) if _few(eqn, axes) else None
    return as_one_loop(eqn) if is_batch_of_loops(eqn) else None


def _few(eqn: Any, axes: Sequence[int]) -> bool:
    """Whether the first operand has few elements along these axes."""
    return math.prod(eqn.invars[0].aval.shape[d] for d in axes) <= FOLDED


def _products(eqn: Any) -> core.ClosedJaxpr:
    """A product of matrices as a sum of products."""
    return _product(eqn.params["dimension_numbers"], *_types(eqn))


@functools.lru_cache(maxsize=1024)
def _product(dimension_numbers: Any, *types: jax.ShapeDtypeStruct) -> core.ClosedJaxpr:
    """Products of few kinds make up a quarter of the operations of a tree of bodies, so that each is traced once."""
    (of_a, of_b), (batch_a, batch_b) = dimension_numbers

    def run(a: jax.Array, b: jax.Array) -> jax.Array:
        free_a = [d for d in range(a.ndim) if d not in (*of_a, *batch_a)]
        free_b = [d for d in range(b.ndim) if d not in (*of_b, *batch_b)]
        batch = range(len(batch_a))
        a = jnp.expand_dims(
            a.transpose(*batch_a, *free_a, *of_a), [len(batch) + len(free_a) + k for k in range(len(free_b))]
        )
        b = jnp.expand_dims(b.transpose(*batch_b, *free_b, *of_b), [len(batch) + k for k in range(len(free_a))])
        return jnp.sum(a * b, axis=tuple(range(a.ndim - len(of_a), a.ndim)))

    return jax.make_jaxpr(run)(*types)


def _padded(eqn: Any) -> core.ClosedJaxpr:
    """Edges, and spaces between elements, as arrays of their own."""
    config = eqn.params["padding_config"]

    def run(x: jax.Array, fill: jax.Array) -> jax.Array:
        for d, (low, high, inner) in enumerate(config):
            x = _along(d, _spaced(d, x, fill, inner), fill, low, high)
        return x

    return _traced(run, eqn)


def _spaced(d: int, x: jax.Array, fill: jax.Array, inner: int) -> jax.Array:
    """With so many elements between any two along an axis."""
    n = x.shape[d]
    if not inner or not n:
        return x
    x = jnp.expand_dims(x, d + 1)
    between = jnp.broadcast_to(fill, (*x.shape[: d + 1], inner, *x.shape[d + 2 :]))
    spaced = jax.lax.concatenate((x, between), d + 1).reshape(*x.shape[:d], n * (inner + 1), *x.shape[d + 2 :])
    return jax.lax.slice_in_dim(spaced, 0, n + (n - 1) * inner, axis=d)


def _along(d: int, x: jax.Array, fill: jax.Array, low: int, high: int) -> jax.Array:
    """With edges along an axis; negative ones are cut off."""
    n = x.shape[d]
    wide = [jnp.broadcast_to(fill, (*x.shape[:d], max(edge, 0), *x.shape[d + 1 :])) for edge in (low, high)]
    parts = [part for part in (wide[0], x, wide[1]) if part.shape[d]]
    whole = jax.lax.concatenate(parts, d) if len(parts) > 1 else parts[0] if parts else x
    begin = max(-low, 0)
    return jax.lax.slice_in_dim(whole, begin, begin + n + low + high, axis=d)


def _updated(eqn: Any) -> core.ClosedJaxpr:
    """A part put into an array, as one of the places that its beginning says."""
    rank = len(eqn.invars[0].aval.shape)
    dims = jax.lax.ScatterDimensionNumbers(tuple(range(rank)), (), tuple(range(rank)))

    def run(x: jax.Array, part: jax.Array, *begins: jax.Array) -> jax.Array:
        if not rank:
            return part
        where = jnp.stack([jnp.asarray(begin, jnp.int64) for begin in begins])
        return jax.lax.scatter(x, where, part, dims, mode="clip")

    return _traced(run, eqn)


def _zeros(eqn: Any) -> core.ClosedJaxpr:
    """The array that a scan writes its rows into."""
    like: Any = eqn.outvars[0].aval
    return _traced(lambda *_: jnp.zeros(like.shape, like.dtype), eqn)


def _traced(run: Callable[..., jax.Array], eqn: Any) -> core.ClosedJaxpr:
    return jax.make_jaxpr(run)(*_types(eqn))


def _types(eqn: Any) -> list[jax.ShapeDtypeStruct]:
    return [jax.ShapeDtypeStruct(v.aval.shape, v.aval.dtype) for v in eqn.invars]


_SIMPLER: dict[str, Callable[[Any], core.ClosedJaxpr]] = {
    "dot_general": _products,
    "pad": _padded,
    "dynamic_update_slice": _updated,
    "empty": _zeros,
    "empty2": _zeros,
}
