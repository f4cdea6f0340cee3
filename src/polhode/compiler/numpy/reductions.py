"""Rules of reductions, cumulative operations and products."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode.compiler.array_program import Equation
from polhode.compiler.numpy.rule import Rule


def _reduce(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    ufunc, values = _REDUCTIONS[eqn.name], x[0]
    if values.size == 0 and eqn.name in ("reduce_max", "reduce_min"):
        return [np.full(eqn.outputs[0].shape, -np.inf if eqn.name == "reduce_max" else np.inf)]
    return [ufunc.reduce(values, axis=tuple(eqn.params["axes"]))]


_REDUCTIONS: dict[str, Any] = {
    "reduce_sum": np.add,
    "reduce_prod": np.multiply,
    "reduce_max": np.maximum,
    "reduce_min": np.minimum,
    "reduce_and": np.bitwise_and,
    "reduce_or": np.bitwise_or,
}

_ACCUMULATIONS = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
}


def _accumulate(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    axis, values = eqn.params["axis"], x[0]
    values = np.flip(values, axis) if eqn.params["reverse"] else values
    sums = _ACCUMULATIONS[eqn.name].accumulate(values, axis=axis)
    return [np.flip(sums, axis) if eqn.params["reverse"] else sums]


def _position(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    function = np.argmax if eqn.name == "argmax" else np.argmin
    return [function(x[0], axis=eqn.params["axes"][0])]


def _dot(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    # Sums are of the type of the result, which may be wider.
    a, b = (v.astype(eqn.outputs[0].dtype, copy=False) for v in x)
    of_a, of_b, of_result = _subscripts(eqn.params["dimension_numbers"], a.ndim, b.ndim)
    return [np.einsum(a, of_a, b, of_b, of_result)]


@functools.lru_cache(maxsize=256)
def _subscripts(numbers: Any, dims_a: int, dims_b: int) -> tuple[list[int], list[int], list[int]]:
    """The subscripts of a product's factors and result, for `einsum`."""
    (contract_a, contract_b), (batch_a, batch_b) = numbers
    free_a = [d for d in range(dims_a) if d not in (*contract_a, *batch_a)]
    free_b = [d for d in range(dims_b) if d not in (*contract_b, *batch_b)]
    n_batch, n_a, n_b = len(batch_a), len(free_a), len(free_b)
    batch_labels, a_labels = list(range(n_batch)), list(range(n_batch, n_batch + n_a))
    b_labels = list(range(n_batch + n_a, n_batch + n_a + n_b))
    contracted_labels = list(range(n_batch + n_a + n_b, n_batch + n_a + n_b + len(contract_a)))
    of_a, of_b = [0] * dims_a, [0] * dims_b
    for places, of, dims in (
        (batch_labels, of_a, batch_a),
        (a_labels, of_a, free_a),
        (contracted_labels, of_a, contract_a),
    ):
        for place, d in zip(places, dims, strict=True):
            of[d] = place
    for places, of, dims in (
        (batch_labels, of_b, batch_b),
        (b_labels, of_b, free_b),
        (contracted_labels, of_b, contract_b),
    ):
        for place, d in zip(places, dims, strict=True):
            of[d] = place
    return of_a, of_b, [*batch_labels, *a_labels, *b_labels]


RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCTIONS, _reduce),
    **dict.fromkeys(_ACCUMULATIONS, _accumulate),
    **dict.fromkeys(("argmax", "argmin"), _position),
    "dot_general": _dot,
}
"""By the name of the primitive."""
