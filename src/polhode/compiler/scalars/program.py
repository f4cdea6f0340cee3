"""Scalar programs as lists of operations, from which machine code is made."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, final

import numpy as np

from polhode.compiler.primitives.elimination import Elimination
from polhode.compiler.scalars.backend import AbstractScalarBackend, UnsupportedScalarOperation, Values


class ArrayType(NamedTuple):
    """The type of a variable that stands for an array in memory, in slots of eight bytes."""

    slots: int


class Variable:
    """A scalar that is computed at run time, or an array in memory."""

    __slots__ = ("dtype",)

    def __init__(self, dtype: np.dtype | ArrayType) -> None:
        self.dtype: Any = dtype

    @property
    def slots(self) -> int:
        """Slots that it takes where inputs are packed."""
        return self.dtype.slots if isinstance(self.dtype, ArrayType) else 1


@final
class ConstantArray(Variable):
    """An array in memory of constants, which belongs to the code and is no input."""

    __slots__ = ("values",)

    def __init__(self, values: np.ndarray) -> None:
        super().__init__(ArrayType(values.size))
        self.values = values


class Operation:
    """One operation: its name and parameters, its operands (variables and constants) and its results."""

    __slots__ = ("name", "operands", "params", "results")

    def __init__(self, name: str, params: dict[str, Any], operands: Sequence[Any], results: list[Variable]) -> None:
        self.name, self.params, self.operands, self.results = name, params, operands, results

    @property
    def reads(self) -> list[Variable]:
        """The variables that it needs, those of the programs inside it included."""
        return [
            *(x for x in self.operands if isinstance(x, Variable)),
            *(v for body in subprograms(self) for v in body.free_variables),
        ]


class Program:
    """A sequence of operations. Bodies of loops and branches also see the variables of the surrounding program.

    The operation `read` has an array and a position as operands: of a slot in it, or behind it in the same memory.
    """

    def __init__(self, dtypes: Sequence[np.dtype | ArrayType]) -> None:
        self.inputs = [Variable(d) for d in dtypes]
        self.operations: list[Operation] = []
        self.outputs: list[Any] = []

    @property
    def size(self) -> int:
        """Number of operations; those of loops, branches and procedures count once."""
        inner = dict.fromkeys(body for operation in self._compound for body in subprograms(operation))
        n_passed = sum(len(o.operands) + len(o.results) for o in self.operations if o.name in _WITH_TABLES)
        return len(self.operations) + n_passed + sum(body.size for body in inner)

    @property
    def free_variables(self) -> dict[Variable, None]:
        """Variables of the surrounding program that are used here, in order; arrays of constants are everywhere."""
        own = {*self.inputs, *(v for operation in self.operations for v in operation.results)}
        return {v: None for v in self.used_variables if v not in own and not isinstance(v, ConstantArray)}

    @property
    def used_variables(self) -> dict[Variable, None]:
        """Variables that are used here, in order; those of bodies and branches that are not their own, too."""
        used = dict.fromkeys(x for o in self.operations for x in o.operands if isinstance(x, Variable))
        for operation in self._compound:
            for body in subprograms(operation):
                used.update(body.free_variables)
        used.update(dict.fromkeys(x for x in self.outputs if isinstance(x, Variable)))
        return used

    @property
    def _compound(self) -> list[Operation]:
        """The operations with programs inside them."""
        return [operation for operation in self.operations if operation.name in _SUBPROGRAMS]

    def prune(self) -> None:
        """Drop operations whose results are not used."""
        used = {x for x in self.outputs if isinstance(x, Variable)}
        operations: list[Operation] = []
        for operation in reversed(self.operations):
            if used.isdisjoint(operation.results):
                continue
            for body in subprograms(operation):
                body.prune()
                used.update(body.free_variables)
            used.update(x for x in operation.operands if isinstance(x, Variable))
            operations.append(operation)
        self.operations = operations[::-1]


def split_inputs(program: Program, sizes: Sequence[int]) -> list[list[Variable]]:
    """The inputs of a program by parts of so many slots."""
    inputs, parts = iter(program.inputs), []
    for size in sizes:
        part: list[Variable] = []
        while size > 0:
            part.append(next(inputs))
            size -= part[-1].slots
        parts.append(part)
    return parts


def subprograms(operation: Operation) -> list[Program]:
    """The programs inside an operation: bodies, conditions and branches."""
    return [body for key in _SUBPROGRAMS.get(operation.name, ()) for body in _as_list(operation.params[key])]


_SUBPROGRAMS = {
    "while": ("cond", "body"),
    "cond": ("branches",),
    "rows": ("body",),
    "call": ("body",),
    "solution": ("equation", "precondition"),
    "ruled": ("tangents",),
}


_WITH_TABLES = frozenset(("rows", "call", "elimination"))
"""Operations whose operands and results are in memory."""


def _as_list(value: Program | list[Program]) -> list[Program]:
    return [value] if isinstance(value, Program) else value


@final
class ProgramBackend(AbstractScalarBackend):
    """Appends operations to a program.

    **Arguments:**

    - `program`: to which they are appended.
    - `keeps_rules`: whether operations with a custom derivative keep it.
    - `has_procedures`: whether repeated calls stay calls; never with `keeps_rules`.
    - `before`: a program before this one, to which operations go that depend on nothing in `inside`.
    """

    has_rows = True

    def __init__(
        self,
        program: Program,
        keeps_rules: bool = False,
        has_procedures: bool = True,
        before: Program | None = None,
        inside: Iterable[Variable] = (),
    ) -> None:
        self.program, self.keeps_rules, self.has_procedures = program, keeps_rules, has_procedures and not keeps_rules
        self.has_eliminations = not keeps_rules
        self._before, self._inside = before, set(inside)

    def emit(self, nodes: Sequence[Any], results: Sequence[Any]) -> None:
        for node in nodes:
            operands = [o if isinstance(o, np.generic) else o.value for o in node.operands]
            node.value = Variable(node.dtype)
            program = self._before
            if program is None or not self._inside.isdisjoint(o for o in operands if isinstance(o, Variable)):
                program = self.program
                if self._before is not None:
                    self._inside.add(node.value)
            program.operations.append(Operation(node.kind.name, node.kind.params, operands, [node.value]))

    def scalar(self, value: Any, dtype: Any) -> Any:
        if isinstance(value, Variable):
            return value if value.dtype == dtype else self._add("convert_element_type", {}, [value], [dtype])[0]
        return np.asarray(value, dtype)[()]

    def loop(
        self,
        cond: Callable[[AbstractScalarBackend, Values], Any],
        body: Callable[[AbstractScalarBackend, Values], Values],
        start: Values,
    ) -> Values:
        dtypes = [x.dtype for x in start]
        condition, step = Program(dtypes), Program(dtypes)
        condition.outputs = [cond(self._backend_of(condition), list(condition.inputs))]
        step.outputs = body(self._backend_of(step), list(step.inputs))
        return self._add("while", {"cond": condition, "body": step}, start, dtypes)

    def branch(self, which: Any, branches: Sequence[Callable[[AbstractScalarBackend], Values]]) -> Values:
        programs = [Program([]) for _ in branches]
        for program, branch in zip(programs, branches, strict=True):
            program.outputs = branch(self._backend_of(program))
        return self._add("cond", {"branches": programs}, [which], [x.dtype for x in programs[0].outputs])

    def rows(
        self,
        body: Callable[[AbstractScalarBackend, Values, Values], tuple[Values, Values]],
        start: Values,
        rows: Sequence[Values],
        reverse: bool,
    ) -> tuple[Values, list[Values]]:
        n, length = len(start), len(rows)
        program = Program([x.dtype for x in (*start, *rows[0])])
        carry, row = body(self._backend_of(program), program.inputs[:n], program.inputs[n:])
        program.outputs = [*carry, *row]
        params = {"body": program, "carried": n, "length": length, "reverse": reverse}
        dtypes = [*(x.dtype for x in carry), *(x.dtype for _ in rows for x in row)]
        results = self._add("rows", params, [*start, *(x for values in rows for x in values)], dtypes)
        width = len(row)
        return results[:n], [results[n + k * width : n + (k + 1) * width] for k in range(length)]

    def extend(self, operations: Sequence[Operation]) -> None:
        """Append operations."""
        self.program.operations += operations
        if self._before is not None:
            self._inside.update(v for operation in operations for v in operation.results)

    def call(self, body: Program, operands: Values) -> Values:
        """The results of a procedure."""
        return self._add("call", {"body": body}, operands, [x.dtype for x in body.outputs])

    def eliminate(self, plan: Elimination, entries: Values) -> Values:
        """The entries of the factors, as in `plan`."""
        return self._add("elimination", {"plan": plan}, entries, [x.dtype for x in entries])

    def solution(
        self,
        x: Values,
        place: Values,
        equation: Callable[[AbstractScalarBackend, Values], Values],
        precondition: Callable[[AbstractScalarBackend, Values, Values], Values],
    ) -> Values:
        n, dtypes = len(x), [v.dtype for v in x]
        exact = Program(dtypes)
        exact.outputs = equation(self._backend_of(exact), list(exact.inputs))
        parts = exact.outputs[: len(exact.outputs) - len(place)]
        inverse = Program([*dtypes, *(v.dtype for v in parts)])
        inverse.outputs = precondition(self._backend_of(inverse), inverse.inputs[:n], inverse.inputs[n:])
        params = {"equation": exact, "precondition": inverse, "unknowns": n}
        return self._add("solution", params, [*x, *place], [v.dtype for v in (*x, *place)])

    def custom_jvp(
        self, outs: Values, of: Values, tangents: Callable[[AbstractScalarBackend, Values], Values]
    ) -> Values:
        program = Program([x.dtype for x in of])
        # Linear, so that its operations need no rules; some rules would recurse without end.
        program.outputs = tangents(ProgramBackend(program, has_procedures=False), list(program.inputs))
        return self._add("ruled", {"tangents": program}, [*outs, *of], [x.dtype for x in outs])

    def foreign(self, eqn: Any, inputs: Sequence[Values]) -> Sequence[Any]:
        # An operation without results is called for its side effect, such as printing, and needs arrays too.
        if not eqn.outvars or any(v.aval.size for v in eqn.outvars):
            raise UnsupportedScalarOperation(eqn.primitive.name)
        return [np.zeros(v.aval.shape, v.aval.dtype) for v in eqn.outvars]

    def _backend_of(self, program: Program) -> ProgramBackend:
        return ProgramBackend(program, self.keeps_rules, self.has_procedures)

    def _add(self, name: str, params: dict[str, Any], operands: Sequence[Any], dtypes: Sequence[Any]) -> list[Variable]:
        results = [Variable(d) for d in dtypes]
        self.extend([Operation(name, params, operands, results)])
        return results
