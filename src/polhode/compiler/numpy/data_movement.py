"""Rules of selection, data movement and conversion of elements."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode.compiler.array_program import Equation
from polhode.compiler.numpy.rule import Rule
from polhode.compiler.primitives import gather_scatter


def _broadcast(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    shape = eqn.params["shape"]
    aligned_shape = [1] * len(shape)
    for source, target in enumerate(eqn.params["broadcast_dimensions"]):
        aligned_shape[target] = x[0].shape[source]
    return [np.broadcast_to(x[0].reshape(aligned_shape), shape)]


def _reshape(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    return [x[0].reshape(eqn.outputs[0].shape)]


def _slice(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    p = eqn.params
    strides = p["strides"] or (1,) * x[0].ndim
    return [x[0][tuple(slice(*w) for w in zip(p["start_indices"], p["limit_indices"], strides, strict=True))]]


def _window(shape: tuple[int, ...], starts: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[slice, ...]:
    begin = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(b, b + m) for b, m in zip(begin, sizes, strict=True))


def _dynamic_slice(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    return [x[0][_window(x[0].shape, x[1:], eqn.params["slice_sizes"])]]


def _dynamic_update(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    out = x[0].copy()
    out[_window(out.shape, x[2:], x[1].shape)] = x[1]
    return [out]


def _convert(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    values, kind = x[0], np.dtype(eqn.outputs[0].dtype)
    if values.dtype.kind != "f" or kind.kind not in "iu":
        return [values.astype(kind)]
    # As XLA: numbers that are too large saturate, and NaN becomes 0.
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    out = np.zeros(values.shape, kind)
    out[values <= low], out[values >= float(high)] = low, high
    inside = (values > low) & (values < float(high))
    out[inside] = values[inside].astype(kind)
    return [out]


def _select(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    which, *cases = x
    return [np.where(which, cases[1], cases[0]) if len(cases) == 2 else np.choose(which, cases)]


def _split(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    return np.split(x[0], np.cumsum(eqn.params["sizes"])[:-1], axis=eqn.params["axis"])


def _pad(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    config = eqn.params["padding_config"]
    out = np.full(eqn.outputs[0].shape, x[1], x[0].dtype)
    inside = (
        slice(low, low + (n - 1) * (step + 1) + 1 if n else low, step + 1)
        for (low, _, step), n in zip(config, x[0].shape, strict=True)
    )
    out[tuple(inside)] = x[0]
    return [out]


def _iota(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    shape, dimension = eqn.params["shape"], eqn.params["dimension"]
    line = np.arange(shape[dimension], dtype=eqn.params["dtype"])
    return [np.broadcast_to(line.reshape([-1 if d == dimension else 1 for d in range(len(shape))]), shape)]


def _gather(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    values, indices = x
    places = gather_scatter.gather_positions(eqn.params, values.shape, indices)
    elements = values.reshape(-1)[np.maximum(places, 0)] if values.size else np.zeros(places.shape, values.dtype)
    if (places == gather_scatter.OUTSIDE).any():
        elements = np.where(
            places == gather_scatter.OUTSIDE, _fill_value(eqn.params["fill_value"], values.dtype), elements
        )
    return [elements]


def _fill_value(value: Any, dtype: Any) -> Any:
    """JAX's value for indices out of bounds."""
    if value is not None:
        return value
    if np.issubdtype(dtype, np.inexact):
        return np.nan
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind == "u" else np.iinfo(dtype).min


_SCATTERS = {
    "scatter": None,
    "scatter-add": np.add,
    "scatter-sub": np.subtract,
    "scatter-mul": np.multiply,
    "scatter-min": np.minimum,
    "scatter-max": np.maximum,
}


def _scatter(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    values, indices, updates = x
    places = gather_scatter.scatter_positions(eqn.params, values.shape, indices, updates.shape)
    inside = places != gather_scatter.OUTSIDE
    out, combine = values.reshape(-1).copy(), _SCATTERS[eqn.name]
    if combine is None:
        out[places[inside]] = updates[inside]
    else:
        combine.at(out, places[inside], updates[inside])
    return [out.reshape(values.shape)]


def _sort(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """All operands in the order of the first."""
    along = eqn.params["dimension"]
    order = np.argsort(x[0], axis=along, kind="stable")
    return [np.take_along_axis(values, order, along) for values in x]


def _total_order(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """Comparison in the total order, which includes signed zeros and NaN."""
    a, b = map(_ranks, x)
    return [a < b if eqn.name == "lt_to" else a <= b]


def _ranks(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind != "f":
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


def _power(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    y = eqn.params["y"]
    return [x[0] ** y if y >= 0 else 1.0 / x[0] ** -y]


def _round(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    if int(eqn.params["rounding_method"]) == 1:
        return [np.round(x[0])]
    return [np.copysign(np.floor(np.abs(x[0]) + 0.5), x[0])]


RULES: dict[str, Rule] = {
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshape),
    "broadcast_in_dim": _broadcast,
    "transpose": lambda eqn, x: [x[0].transpose(eqn.params["permutation"])],
    "concatenate": lambda eqn, x: [np.concatenate(x, eqn.params["dimension"])],
    "stack": lambda eqn, x: [np.stack(x, eqn.params["axis"])],
    "unstack": lambda eqn, x: list(np.moveaxis(x[0], eqn.params["axis"], 0)),
    "rev": lambda eqn, x: [np.flip(x[0], eqn.params["dimensions"])],
    "convert_element_type": _convert,
    "optimization_barrier": lambda eqn, x: x,
    "select_n": _select,
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "split": _split,
    "pad": _pad,
    "gather": _gather,
    **dict.fromkeys(_SCATTERS, _scatter),
    "sort": _sort,
    **dict.fromkeys(("lt_to", "le_to"), _total_order),
    "integer_pow": _power,
    "round": _round,
    "iota": _iota,
}
"""By the name of the primitive."""
