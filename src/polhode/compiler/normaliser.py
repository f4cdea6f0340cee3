"""Normal form of programs: calls inlined, constants folded, common subexpressions shared, dead code eliminated.

JAX's traces have most operations several times. No operation is replaced by one that rounds differently, so results
are the same to the last bit.
"""

from __future__ import annotations

import abc
from collections.abc import Hashable, Sequence
from typing import Any, NamedTuple

import numpy as np
from jax.extend import core

from polhode.compiler.array_program import Equation, FlatProgram, Value
from polhode.compiler.jaxprs import Callee, callee, open_jaxpr, parameters
from polhode.compiler.scalars.primitives import SCATTERS

IDENTITIES = frozenset(("copy", "copy_p", "optimization_barrier", "stop_gradient"))
"""Operations whose results are their operands."""

_COMBINATION = frozenset(("update_jaxpr", "update_consts"))
"""Parameters of a scatter that its name says, too; they are traced anew for each."""


_COMPARED = 100_000
"""Elements of the largest constants that are compared."""


class AbstractNormaliser(abc.ABC):
    """The flat list of a program's operations, as one back end takes them.

    Operands are `Value`s and constants. Back ends say what they fold, rewrite and append.
    """

    identities: frozenset[str] = IDENTITIES

    def __init__(self) -> None:
        self.equations: list[Equation] = []
        self._results: dict[Hashable, Sequence[Any]] = {}
        self._constants: dict[Hashable, Any] = {}
        self._kinds: dict[Hashable, int] = {}
        self._recipes: dict[int, _Recipe] = {}

    def program(self, jaxpr: core.Jaxpr, consts: Sequence[Any] | None = None) -> FlatProgram:
        """The normal form of a program. Without the values of its constants, these are inputs, too."""
        variables = jaxpr.invars if consts is not None else (*jaxpr.constvars, *jaxpr.invars)
        inputs = [self.value(v.aval) for v in variables]
        outputs = self.evaluate(jaxpr, [*map(self.constant, consts or ()), *inputs])
        return FlatProgram(inputs, live_equations(self.equations, outputs), outputs)

    def evaluate(self, jaxpr: core.Jaxpr, operands: Sequence[Any]) -> list[Any]:
        """Appends the operations of a program; returns its results. `operands`: its constants and arguments."""
        env: dict[Any, Any] = dict(zip((*jaxpr.constvars, *jaxpr.invars), operands, strict=True))
        recipe = self._recipe(jaxpr)
        for step in recipe.steps:
            inputs = [x if type(x) is np.ndarray else env[x] for x in step.operands]
            env.update(zip(step.eqn.outvars, self._apply(step, inputs), strict=True))
        return [x if type(x) is np.ndarray else env[x] for x in recipe.results]

    def value(self, aval: Any) -> Value:
        """A new value of this type."""
        return Value(aval.shape, aval.dtype)

    def constant(self, value: Any) -> Any:
        """A constant: the same array for the same content."""
        array = np.asarray(value)
        # Others are identified by their addresses, and so must stay alive.
        is_compared = array.size <= _COMPARED and not array.dtype.hasobject
        key = (array.dtype.str, array.shape, array.tobytes()) if is_compared else id(array)
        return self._constants.setdefault(key, array)

    def inlines(self, eqn: Any) -> bool:
        """Whether the operations of the program that an operation calls take its place."""
        return True

    @abc.abstractmethod
    def fold(self, eqn: Any, inputs: list[Any]) -> list[np.ndarray] | None:
        """The results of an operation whose operands are constants; None if it is not folded."""

    def rewrite(self, eqn: Any, inputs: list[Any]) -> tuple[core.ClosedJaxpr, Sequence[Any]] | None:
        """The program that replaces an operation, and its arguments; None if it stays."""
        return None

    def append(self, eqn: Any, inputs: list[Any]) -> Sequence[Any]:
        """Appends an operation; returns its results."""
        outputs = [self.value(v.aval) for v in eqn.outvars]
        self.equations.append(Equation(eqn.primitive.name, parameters(eqn), inputs, outputs, eqn))
        return outputs

    def _recipe(self, jaxpr: core.Jaxpr) -> _Recipe:
        """A program as it is evaluated; most are called several times, by every link of a tree for example."""
        if id(jaxpr) not in self._recipes:
            atoms = self._atoms
            steps = [
                _Step(e, atoms(e.invars), self._callee(e), self._is_identity(e), self._kind(e)) for e in jaxpr.eqns
            ]
            self._recipes[id(jaxpr)] = _Recipe(jaxpr, steps, atoms(jaxpr.outvars))
        return self._recipes[id(jaxpr)]

    def _atoms(self, atoms: Sequence[Any]) -> list[Any]:
        """Variables, and constants in place of literals."""
        # JAX types the values of literals as those of any kind, but they are arrays.
        return [
            self.constant(np.asarray(x.val, x.aval.dtype))  # pyrefly: ignore[missing-attribute]
            if isinstance(x, core.Literal)
            else x
            for x in atoms
        ]

    def _callee(self, eqn: Any) -> Callee | None:
        return callee(eqn) if self.inlines(eqn) else None

    def _kind(self, eqn: Any) -> int | None:
        """A number for what an operation does, besides its operands; None where equal ones can't be told."""
        key = None if eqn.effects else kind(eqn)
        return None if key is None else self._kinds.setdefault(key, len(self._kinds))

    def _apply(self, step: _Step, inputs: list[Any]) -> Sequence[Any]:
        if step.is_identity:
            return inputs
        if step.kind is None:
            return self._new(step.eqn, inputs) if step.callee is None else self._inline(step.callee, inputs)
        # Every constant is one array.
        key = step.kind, *[x if type(x) is Value else id(x) for x in inputs]
        results = self._results.get(key)
        if results is None:
            new = self._new(step.eqn, inputs) if step.callee is None else self._inline(step.callee, inputs)
            results = self._results[key] = new
        return results

    def _new(self, eqn: Any, inputs: list[Any]) -> Sequence[Any]:
        folded = self.fold(eqn, inputs) if all(isinstance(x, np.ndarray) for x in inputs) else None
        if folded is not None:
            return list(map(self.constant, folded))
        simpler = self.rewrite(eqn, inputs)
        return self.append(eqn, inputs) if simpler is None else self._inline(open_jaxpr(simpler[0]), simpler[1])

    def _inline(self, program: Callee, inputs: Sequence[Any]) -> Sequence[Any]:
        jaxpr, consts = program
        return self.evaluate(jaxpr, [*map(self.constant, consts), *inputs])

    def _is_identity(self, eqn: Any) -> bool:
        if eqn.primitive.name in self.identities:
            return True
        if eqn.primitive.name not in ("convert_element_type", "reshape") or len(eqn.invars) != 1:
            return False
        before, after = eqn.invars[0].aval, eqn.outvars[0].aval
        return (before.shape, before.dtype) == (after.shape, after.dtype)


class _Step(NamedTuple):
    """An operation of a program, with all that doesn't depend on its operands' values.

    - `operands`: variables and constants. - `callee`: the program that takes its place.
    - `is_identity`: whether its results are its operands. - `kind`: see `AbstractNormaliser._kind`.
    """

    eqn: Any
    operands: list[Any]
    callee: Callee | None
    is_identity: bool
    kind: int | None


class _Recipe(NamedTuple):
    """A program as a list of steps. The program stays alive, since its address identifies it."""

    jaxpr: core.Jaxpr
    steps: list[_Step]
    results: list[Any]


def kind(eqn: Any) -> Hashable:
    """The name and the parameters of an operation; None where these can't be compared."""
    name = eqn.primitive.name
    if not eqn.params:
        return name
    left_out = _COMBINATION if name in SCATTERS else ()
    # 1 is not True, and 0.0 not -0.0.
    params = tuple(
        (k, type(x), repr(x) if isinstance(x, float) else x) for k, x in parameters(eqn).items() if k not in left_out
    )
    try:
        hash(params)
    except TypeError:
        return None
    return name, params


def live_equations(equations: Sequence[Equation], results: Sequence[Any]) -> list[Equation]:
    """The operations on which these results depend, and those with side effects."""
    used, live = {id(x) for x in results}, list[Equation]()
    for equation in reversed(equations):
        if not used.isdisjoint(map(id, equation.outputs)) or _acts(equation):
            live.append(equation)
            used.update(map(id, equation.inputs))
    return live[::-1]


def _acts(equation: Equation) -> bool:
    return equation.origin is not None and bool(equation.origin.effects)
