"""Data-dependent reads and writes as selections among all possible positions.

Scalars can't be indexed. Tables of users' loads and pivots of small matrices are short, so that an element is selected
by comparing the index with every position.
"""

from __future__ import annotations

import functools
import itertools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.extend import core

from polhode.compiler.primitives import gather_scatter
from polhode.compiler.scalars.graph import Elements, is_known
from polhode.compiler.scalars.primitives import SCATTERS

_MAX_SELECTIONS = 4096
"""Largest number of selections for one read or write."""

KnownValues = Sequence[np.ndarray | None]
"""For each input its values if they are constants, else None."""


def as_selections(eqn: Any, inputs: Sequence[Elements]) -> core.ClosedJaxpr | None:
    """The equation as selections; None if it is no read or write, or would need too many."""
    rule = _RULES.get(eqn.primitive.name)
    if rule is None:
        return None
    avals = [v.aval for v in eqn.invars]
    constants = [
        x.astype(aval.dtype) if all(map(is_known, x.flat)) else None for x, aval in zip(inputs, avals, strict=True)
    ]
    function = rule(eqn.params, avals, constants)
    if function is None:
        return None
    return jax.make_jaxpr(function)(*(jax.ShapeDtypeStruct(a.shape, a.dtype) for a in avals))


def _candidates(constants: KnownValues, highest: Sequence[int], elements: int) -> list[tuple[int, ...]] | None:
    """All possible positions of a window; None if these are too many for windows of so many elements."""
    ranges = [
        range(high + 1) if at is None else sorted(set(np.clip(at, 0, high).ravel().tolist()))
        for at, high in zip(constants, highest, strict=True)
    ]
    return list(itertools.product(*ranges)) if math.prod(map(len, ranges)) * elements <= _MAX_SELECTIONS else None


def _starts_at(starts: Sequence[Any], place: tuple[int, ...], highest: Sequence[int]) -> Any:
    """Whether windows start at `place`, once they are clipped to 0 … `highest`."""
    same = [jnp.clip(s, 0, high) == k for s, k, high in zip(starts, place, highest, strict=True)]
    return functools.reduce(jnp.logical_and, same)


def _dynamic_slice(params: Any, avals: Any, constants: KnownValues) -> Callable[..., Any] | None:
    sizes = params["slice_sizes"]
    highest = [n - m for n, m in zip(avals[0].shape, sizes, strict=True)]
    places = _candidates(constants[1:], highest, math.prod(sizes))
    if places is None:
        return None

    def select(x: Any, *starts: Any) -> Any:
        parts = [jax.lax.slice(x, place, [k + m for k, m in zip(place, sizes, strict=True)]) for place in places]
        out = parts[-1]
        for place, part in zip(places[:-1], parts[:-1], strict=True):
            out = jnp.where(_starts_at(starts, place, highest), part, out)
        return out

    return select


def _dynamic_update_slice(params: Any, avals: Any, constants: KnownValues) -> Callable[..., Any] | None:
    sizes = avals[1].shape
    highest = [n - m for n, m in zip(avals[0].shape, sizes, strict=True)]
    places = _candidates(constants[2:], highest, math.prod(sizes))
    if places is None:
        return None

    def update_where(x: Any, update: Any, *starts: Any) -> Any:
        for place in places:
            window = tuple(slice(k, k + m) for k, m in zip(place, sizes, strict=True))
            x = x.at[window].set(jnp.where(_starts_at(starts, place, highest), update, x[window]))
        return x

    return update_where


def _components(indices: np.ndarray | None, depth: int) -> KnownValues:
    return [None if indices is None else indices[..., k] for k in range(depth)]


def _gather(params: Any, avals: Any, constants: KnownValues) -> Callable[..., Any] | None:
    dims, x, indices = params["dimension_numbers"], *avals
    highest = [x.shape[d] - params["slice_sizes"][d] for d in dims.start_index_map]
    places = _candidates(_components(constants[1], len(highest)), highest, 1)
    out = jax.eval_shape(functools.partial(_bind, jax.lax.gather_p, params), *avals)
    if places is None or len(places) * math.prod(out.shape) > _MAX_SELECTIONS:
        return None
    positions = [
        gather_scatter.gather_positions(params, x.shape, np.broadcast_to(place, indices.shape)) for place in places
    ]
    fills = "FILL" in str(params["mode"]).upper()

    def select(x: Any, indices: Any) -> Any:
        starts = [indices[..., k] for k in range(len(highest))]
        flat = x.reshape(-1)
        parts = [flat[at.ravel()].reshape(out.shape) for at in positions]
        result = parts[-1]
        for place, part in zip(places[:-1], parts[:-1], strict=True):
            result = jnp.where(jnp.expand_dims(_starts_at(starts, place, highest), dims.offset_dims), part, result)
        if fills:
            inside = [(s >= 0) & (s <= high) for s, high in zip(starts, highest, strict=True)]
            inside = jnp.expand_dims(functools.reduce(jnp.logical_and, inside), dims.offset_dims)
            result = jnp.where(inside, result, fill_value(params, x.dtype))
        return result

    return select


def _bind(primitive: Any, params: Any, *args: Any) -> Any:
    return primitive.bind(*args, **params)


def fill_value(params: Any, dtype: Any) -> Any:
    """The value of elements outside the array."""
    if params["fill_value"] is not None:
        return params["fill_value"]
    if np.issubdtype(dtype, np.inexact):
        return np.nan
    return np.iinfo(dtype).min if np.issubdtype(dtype, np.signedinteger) else np.iinfo(dtype).max


def _scatter(params: Any, avals: Any, constants: KnownValues, name: str) -> Callable[..., Any] | None:
    dims, (x, indices, updates) = params["dimension_numbers"], avals
    window = [d for d in range(len(x.shape)) if d not in (*dims.inserted_window_dims, *dims.operand_batching_dims)]
    sizes = dict(zip(window, (updates.shape[k] for k in dims.update_window_dims), strict=True))
    highest = [x.shape[d] - sizes.get(d, 1) for d in dims.scatter_dims_to_operand_dims]
    places = _candidates(_components(constants[1], len(highest)), highest, math.prod(updates.shape))
    if places is None or (name == "scatter" and params.get("update_jaxpr") is None and _batches(indices) > 1):
        # Where several windows overlap, the last update counts.
        return None
    at = [
        gather_scatter.scatter_positions(params, x.shape, np.broadcast_to(p, indices.shape), updates.shape)
        for p in places
    ]
    fills = "FILL" in str(params["mode"]).upper()

    def update_where(x: Any, indices: Any, updates: Any) -> Any:
        starts = [indices[..., k] for k in range(len(highest))]
        flat = x.reshape(-1)
        for place, to in zip(places, at, strict=True):
            same = _starts_at(starts, place, highest)
            if fills:
                same = functools.reduce(jnp.logical_and, (s == k for s, k in zip(starts, place, strict=True)))
            same = jnp.broadcast_to(jnp.expand_dims(same, dims.update_window_dims), updates.shape)
            for k, target in zip(np.ndindex(updates.shape), to.ravel(), strict=True):
                now = flat[target]
                flat = flat.at[target].set(jnp.where(same[k], _UPDATE_RULES[name](now, updates[k]), now))
        return flat.reshape(x.shape)

    return update_where


def _batches(indices: Any) -> int:
    return math.prod(indices.shape[:-1])


_UPDATE_RULES: dict[str, Callable[[Any, Any], Any]] = {
    "scatter": lambda _, new: new,
    **{name: getattr(jax.lax, operation) for name, operation in SCATTERS.items()},
}


def _platform(params: Any, avals: Any, constants: KnownValues) -> Callable[..., Any] | None:
    """Of the alternatives for several platforms, that for the CPU, by name or by default."""
    which = next(k for k, names in enumerate(params["platforms"]) if names is None or "cpu" in names)
    return lambda: np.int32(which)


_RULES: dict[str, Callable[[Any, Any, KnownValues], Callable[..., Any] | None]] = {
    "platform_index": _platform,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update_slice,
    "gather": _gather,
    **{name: functools.partial(_scatter, name=name) for name in ("scatter", *SCATTERS)},
}
