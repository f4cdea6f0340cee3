"""Common subexpression elimination and constant folding: JAX's traces have most operations several times."""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
from jax.extend import core

from polhode.compiler.jaxprs import callee, parameters

Value = int | np.ndarray
"""The position of a value, or the value itself where it is constant."""

_SMALL = 1000
"""Elements of the largest arrays that are folded and compared."""

_IDENTITIES = frozenset(("copy", "copy_p", "optimization_barrier", "stop_gradient"))


class Operation(Protocol):
    """An operation that can be evaluated, with the positions of its results."""

    inputs: list[Value]
    outputs: list[int]

    @property
    def is_known(self) -> bool:
        """Whether it is folded where its operands are constant."""
        ...

    def __call__(self, x: list[np.ndarray]) -> Sequence[Any]:
        """The results."""
        ...


E = TypeVar("E", bound=Operation)


class Simplification(Generic[E]):
    """The flat list of a program's operations: calls inlined, equal operations merged, constant ones folded.

    No operation is replaced by another, so results are the same to the last bit.

    **Arguments:**

    - `arguments`: the number of arguments; they have the first positions.
    - `build`: builds an operation from JAX's equation, its operands, and the positions of its results.
    """

    def __init__(self, arguments: int, build: Callable[[Any, list[Value], list[int]], E]) -> None:
        self.size, self._build = arguments, build
        self._operations: list[tuple[E, bool]] = []
        self._done: dict[Hashable, list[Value]] = {}
        self._known: dict[Hashable, np.ndarray] = {}
        self._large: list[np.ndarray] = []

    def results(self, jaxpr: core.Jaxpr, consts: Sequence[Value], args: Sequence[Value]) -> list[Value]:
        """The results of a program with these arguments."""
        values: dict[Any, Value] = dict(zip((*jaxpr.constvars, *jaxpr.invars), (*consts, *args), strict=True))

        def read(atom: Any) -> Value:
            like: Any = atom.aval
            return self.intern(np.asarray(atom.val, like.dtype)) if isinstance(atom, core.Literal) else values[atom]

        for eqn in jaxpr.eqns:
            values.update(zip(eqn.outvars, self._evaluate(eqn, list(map(read, eqn.invars))), strict=True))
        return list(map(read, jaxpr.outvars))

    def intern(self, value: np.ndarray) -> np.ndarray:
        """The same array for the same content."""
        if value.size > _SMALL or value.dtype.hasobject:
            # It is identified by its address, and so must stay alive.
            self._large.append(value)
            return value
        return self._known.setdefault((value.dtype.str, value.shape, value.tobytes()), value)

    def live_operations(self, results: Sequence[Value]) -> list[E]:
        """The operations on which these results depend, and those with side effects."""
        live, operations = {x for x in results if isinstance(x, int)}, list[E]()
        for operation, acts in reversed(self._operations):
            if acts or not live.isdisjoint(operation.outputs):
                operations.append(operation)
                live.update(x for x in operation.inputs if isinstance(x, int))
        return operations[::-1]

    def _evaluate(self, eqn: Any, inputs: list[Value]) -> list[Value]:
        program = callee(eqn)
        if program is not None:
            inner, consts = program
            return self.results(inner, [self.intern(np.asarray(c)) for c in consts], inputs)
        if _is_unchanged(eqn):
            return inputs
        key = _key(eqn, inputs)
        results = None if key is None else self._done.get(key)
        if results is None:
            results = self._new(eqn, inputs)
            if key is not None:
                self._done[key] = results
        return results

    def _new(self, eqn: Any, inputs: list[Value]) -> list[Value]:
        places = list(range(self.size, self.size + len(eqn.outvars)))
        operation = self._build(eqn, inputs, places)
        small = sum(math.prod(v.aval.shape) for v in eqn.outvars) <= _SMALL
        operands = [x for x in inputs if not isinstance(x, int)]
        if small and len(operands) == len(inputs) and operation.is_known:
            with np.errstate(all="ignore"):
                outs = operation(operands)
            # In C order, as after loading from disk: sums depend on it.
            return [self.intern(np.array(x, v.aval.dtype, order="C")) for x, v in zip(outs, eqn.outvars, strict=True)]
        self._operations.append((operation, bool(eqn.effects)))
        self.size += len(places)
        return list[Value](places)


def _is_unchanged(eqn: Any) -> bool:
    """Whether the results are the operands."""
    if eqn.primitive.name in _IDENTITIES:
        return True
    if eqn.primitive.name not in ("convert_element_type", "reshape"):
        return False
    before, after = eqn.invars[0].aval, eqn.outvars[0].aval
    return len(eqn.invars) == 1 and (before.shape, before.dtype) == (after.shape, after.dtype)


def _key(eqn: Any, inputs: Sequence[Value]) -> Hashable:
    """The key of an operation; None where there is none."""
    if eqn.effects:
        return None
    operands = tuple((True, x) if isinstance(x, int) else (False, id(x)) for x in inputs)
    # 1 is not True, and 0.0 not -0.0.
    params = tuple((k, type(x), repr(x) if isinstance(x, float) else x) for k, x in parameters(eqn).items())
    try:
        hash(params)
    except TypeError:
        return None
    return eqn.primitive, operands, params
