"""Data movement, which unrolling removes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from polhode.compiler.primitives import gather_scatter
from polhode.compiler.scalars.graph import Elements, is_known


def _broadcast_in_dim(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    x = inputs[0]
    shape_with_ones = [1] * len(shape)
    for source, target in enumerate(dims):
        shape_with_ones[target] = x.shape[source]
    return [np.broadcast_to(x.reshape(shape_with_ones), shape)]


def _slice(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    p = eqn.params
    strides = p["strides"] or (1,) * len(p["start_indices"])
    return [inputs[0][tuple(slice(*w) for w in zip(p["start_indices"], p["limit_indices"], strides, strict=True))]]


def _dynamic_slice(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    x, *starts = inputs
    if not all(is_known(s[()]) for s in starts):
        return None
    sizes = eqn.params["slice_sizes"]
    begin = [min(max(int(s[()]), 0), n - m) for s, n, m in zip(starts, x.shape, sizes, strict=True)]
    return [x[tuple(slice(b, b + m) for b, m in zip(begin, sizes, strict=True))]]


def _split(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    ends = np.cumsum(eqn.params["sizes"])[:-1]
    return list(np.split(inputs[0], ends, axis=eqn.params["axis"]))


def _pad(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    x, fill = inputs
    config = eqn.params["padding_config"]
    # Negative edges are cut off afterwards, once the interior padding is in place.
    margins = [(max(-low, 0), max(-high, 0)) for low, high, _ in config]
    wide = [n + a + b for n, (a, b) in zip(eqn.outvars[0].aval.shape, margins, strict=True)]
    out = np.empty(wide, dtype=object)
    out[...] = fill[()]
    begins = [max(low, 0) for low, _, _ in config]
    out[
        tuple(
            slice(low, low + (n - 1) * (inner + 1) + 1 if n else low, inner + 1)
            for low, (_, _, inner), n in zip(begins, config, x.shape, strict=True)
        )
    ] = x
    return [out[tuple(slice(a, n - b) for (a, b), n in zip(margins, wide, strict=True))]]


def _gather(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    """Constant indices: gather the positions instead of the values."""
    x, indices = inputs
    if not all(is_known(i) for i in indices.flat):
        return None
    places = gather_scatter.gather_positions(eqn.params, x.shape, indices.astype(np.int64))
    return None if (places == gather_scatter.OUTSIDE).any() else [x.reshape(-1)[places, ...]]


def _scatter_values(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    """Constant indices: scatter the positions instead of the values."""
    x, indices, updates = inputs
    if eqn.params.get("update_jaxpr") is not None or not all(is_known(i) for i in indices.flat):
        return None
    places = scatter_targets(eqn, x.shape, indices)
    out, inside = x.reshape(-1).copy(), places != gather_scatter.OUTSIDE
    out[places[inside]] = updates[inside]
    return [out.reshape(x.shape)]


def scatter_targets(eqn: Any, shape: tuple[int, ...], indices: Elements) -> np.ndarray:
    """Flat position of each update, see `gather_scatter.written`."""
    return gather_scatter.scatter_positions(eqn.params, shape, indices.astype(np.int64), eqn.invars[2].aval.shape)


def _dynamic_update_slice(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    x, update, *starts = inputs
    if not all(is_known(s[()]) for s in starts):
        return None
    begin = [min(max(int(s[()]), 0), n - m) for s, n, m in zip(starts, x.shape, update.shape, strict=True)]
    out = x.copy()
    out[tuple(slice(b, b + m) for b, m in zip(begin, update.shape, strict=True))] = update
    return [out]


MOVES: dict[str, Callable[[Any, list[Elements]], list[Elements] | None]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": lambda e, x: [x[0].reshape(e.params["new_sizes"])],
    "transpose": lambda e, x: [x[0].transpose(e.params["permutation"])],
    "squeeze": lambda e, x: [x[0].reshape(e.outvars[0].aval.shape)],
    "expand_dims": lambda e, x: [x[0].reshape(e.outvars[0].aval.shape)],
    "concatenate": lambda e, x: [np.concatenate(x, axis=e.params["dimension"])],
    "stack": lambda e, x: [np.stack(x, axis=e.params["axis"])],
    # Written so that the parts of a vector are arrays without dimension, not elements.
    "unstack": lambda e, x: [y[i, ...] for y in [np.moveaxis(x[0], e.params["axis"], 0)] for i in range(len(y))],
    "rev": lambda e, x: [np.flip(x[0], e.params["dimensions"])],
    "iota": lambda e, x: [
        _constants(np.broadcast_to(_iota(e), e.outvars[0].aval.shape).astype(e.outvars[0].aval.dtype))
    ],
    # The buffer into which a scan writes its rows.
    "empty": lambda e, _: [_empty(e)],
    "empty2": lambda e, _: [_empty(e)],
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "split": _split,
    "pad": _pad,
    "gather": _gather,
    "scatter": _scatter_values,
    "dynamic_update_slice": _dynamic_update_slice,
    # Tells XLA not to fuse array operations; graphs of scalars are cut elsewhere, see `XlaBackend`.
    "optimization_barrier": lambda _, x: x,
}


def _iota(eqn: Any) -> np.ndarray:
    shape, dimension = eqn.params["shape"], eqn.params["dimension"]
    return np.arange(shape[dimension]).reshape([-1 if d == dimension else 1 for d in range(len(shape))])


def _empty(eqn: Any) -> Elements:
    aval = eqn.outvars[0].aval
    return _constants(np.zeros(aval.shape, aval.dtype))


def _constants(x: np.ndarray) -> Elements:
    out = np.empty(x.shape, dtype=object)
    for index in np.ndindex(x.shape):
        out[index] = x[index]
    return out
