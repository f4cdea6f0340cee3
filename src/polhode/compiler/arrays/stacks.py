"""The same operation on many arrays, as one on the array of which they are the rows.

Systems of many parts keep the coordinates of each in an array of its own, and programs work on one after the other.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.array_program import Equation, Value
from polhode.compiler.scalars.primitives import ELEMENTWISE

MANY = 8
"""Arrays above which they are worth stacking: each read in a loop along parts in different places compares its place
with all of them, n² comparisons in all. A step of a chain of 38 links took 960 µs with them and takes 66; where between
few parts and many a copy begins to pay was not measured."""

_RESHAPES = frozenset(("reshape", "squeeze", "expand_dims"))


def runs(avals: Sequence[Any]) -> list[int]:
    """Lengths of the runs of equal arrays: those that are stacked are longer than `MANY`, all others 1."""
    counts: list[int] = []
    begin = 0
    while begin < len(avals):
        first, end = avals[begin], begin + 1
        while end < len(avals) and (avals[end].shape, avals[end].dtype) == (first.shape, first.dtype):
            end += 1
        count = end - begin
        counts += [count] if count > MANY and first.shape else [1] * count
        begin = end
    return counts


def split_runs(values: Sequence[Any], counts: Sequence[int]) -> list[Sequence[Any]]:
    """The values of each run."""
    ends = np.cumsum(counts, dtype=int).tolist()
    return [values[end - count : end] for count, end in zip(counts, ends, strict=True)]


class Stacker:
    """Stacks of arrays that equal operations make, by one operation on the stacks of their operands.

    **Arguments:**

    - `append`: appends an equation.
    - `constant`: a constant of a program.
    """

    def __init__(self, append: Callable[[Equation], None], constant: Callable[[np.ndarray], np.ndarray]) -> None:
        self._append, self._constant = append, constant
        self._producers: dict[Value, Equation] = {}
        self._kinds: dict[Value, Any] = {}
        self._stacks: dict[tuple[int, ...], Any] = {}

    def record(self, equation: Equation, kind: Any) -> None:
        """Remembers what makes a value. `kind`: equal for equal operations; None where that can't be told."""
        for v in equation.outputs:
            self._producers[v], self._kinds[v] = equation, kind

    def unstack(self, whole: Value) -> list[Value]:
        """The rows of an array."""
        rows = [Value(whole.shape[1:], whole.dtype) for _ in range(whole.shape[0])]
        equation = Equation("unstack", {"axis": 0}, [whole], rows)
        self._append(equation)
        self.record(equation, None)
        return rows

    def stack(self, parts: Sequence[Any]) -> Any:
        """The array of which these are the rows, as a value or a constant; None if it has to be put together."""
        key = tuple(map(id, parts))
        if key not in self._stacks:
            # The parts are kept with their stack, so that no others get their ids.
            self._stacks[key] = self._find(parts), parts
        return self._stacks[key][0]

    def _find(self, parts: Sequence[Any]) -> Any:
        first = parts[0]
        if all(isinstance(x, np.ndarray) for x in parts):
            return self._constant(np.stack(parts))
        if all(x is first for x in parts):
            shape = (len(parts), *first.shape)
            params = {"shape": shape, "broadcast_dimensions": tuple(range(1, len(shape)))}
            return self._new("broadcast_in_dim", params, [first], shape, first.dtype)
        if not all(isinstance(x, Value) and x.shape == first.shape and x in self._producers for x in parts):
            return None
        producers = [self._producers[x] for x in parts]
        name = producers[0].name
        if any(producer.name != name for producer in producers):
            return None
        if name == "unstack":
            return self._rows(parts, producers)
        if name == "slice":
            return self._slices(parts, producers)
        kind = self._kinds[first]
        if kind is None or any(self._kinds[x] != kind for x in parts):
            return None
        if name in _RESHAPES:
            inner = self.stack([producer.inputs[0] for producer in producers])
            return None if inner is None else self._reshape(inner, (len(parts), *first.shape))
        return self._elementwise(parts, producers) if name in ELEMENTWISE else None

    def _rows(self, parts: Sequence[Value], producers: Sequence[Equation]) -> Any:
        """Neighbouring rows of one array."""
        source = producers[0]
        if source.params["axis"] or any(producer is not source for producer in producers):
            return None
        begin = next(k for k, x in enumerate(source.outputs) if x is parts[0])
        here = source.outputs[begin : begin + len(parts)]
        if len(here) < len(parts) or any(a is not b for a, b in zip(here, parts, strict=True)):
            return None
        return self._slice(source.inputs[0], begin, begin + len(parts))

    def _slices(self, parts: Sequence[Value], producers: Sequence[Equation]) -> Any:
        """Neighbouring slices of one array along its first axis."""
        whole, (first, *_) = producers[0].inputs[0], parts
        if not first.shape or first.shape[1:] != whole.shape[1:]:
            return None
        size, begin = first.shape[0], producers[0].params["start_indices"][0]
        for k, producer in enumerate(producers):
            if producer.inputs[0] is not whole or producer.params["start_indices"][0] != begin + k * size:
                return None
            if (producer.params["strides"] or (1,))[0] != 1:
                return None
        rows = self._slice(whole, begin, begin + size * len(parts))
        return self._reshape(rows, (len(parts), *first.shape))

    def _elementwise(self, parts: Sequence[Value], producers: Sequence[Equation]) -> Any:
        first, operands = parts[0], list[Any]()
        for of_all in zip(*(producer.inputs for producer in producers), strict=True):
            if all(x is of_all[0] for x in of_all):
                # The same for all rows; a number for all elements.
                x = of_all[0]
                operands.append(self._reshape(x, (1, *x.shape)) if x.shape else x)
                continue
            if any(x.shape != first.shape for x in of_all):
                return None
            operands.append(self.stack(of_all))
            if operands[-1] is None:
                return None
        shape = (len(parts), *first.shape)
        if not any(x.shape == shape for x in operands):
            return None
        return self._new(producers[0].name, producers[0].params, operands, shape, first.dtype)

    def _slice(self, x: Any, begin: int, end: int) -> Any:
        if (begin, end) == (0, x.shape[0]):
            return x
        starts = (begin, *[0] * (len(x.shape) - 1))
        params = {"start_indices": starts, "limit_indices": (end, *x.shape[1:]), "strides": None}
        return self._new("slice", params, [x], (end - begin, *x.shape[1:]), x.dtype)

    def _reshape(self, x: Any, shape: tuple[int, ...]) -> Any:
        if isinstance(x, np.ndarray):
            return self._constant(x.reshape(shape))
        return x if x.shape == shape else self._new("reshape", {"new_sizes": shape}, [x], shape, x.dtype)

    def as_concatenation(self, stack: Any, shape: tuple[int, ...]) -> Any:
        """The rows of a stack one after the other along the first axis."""
        return self._reshape(stack, shape)

    def _new(self, name: str, params: Any, inputs: list[Any], shape: tuple[int, ...], dtype: Any) -> Value:
        equation = Equation(name, params, inputs, [result := Value(shape, dtype)])
        self._append(equation)
        # Equations of this kind don't take part in larger stacks.
        self.record(equation, None)
        return result
