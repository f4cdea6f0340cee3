"""Programs on scalars in C: every operation is the definition of a constant."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator, Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.compiler.c.code_tree import Body, Braces, Group, Line
from polhode.compiler.c.elimination import elimination
from polhode.compiler.c.expressions import c_type, expression, literal
from polhode.compiler.c.slots import slot_member, slot_value
from polhode.compiler.scalars.program import ArrayType, ConstantArray, Operation, Program, Variable


class ScalarPrinter:
    """The body of one function under construction.

    - `body`: its statements so far. - `tables`: constants before the function. - `procedures`: functions before it.

    **Arguments:**

    - `function`: its name.
    """

    def __init__(self, function: str) -> None:
        self.body = Body()
        self.tables: dict[str, str] = {}
        self.procedures: dict[Program, Procedure] = {}
        self.function = function
        self._constants: dict[Any, str] = {}
        self._outer: list[Body] = []
        self._names: dict[Any, str] = {}
        self._count = 0

    # --- text ---------------------------------------------------------------------------------------------------------

    def line(self, text: str, *, is_fixed: bool = False) -> None:
        self.body.append(Line(text, is_fixed=is_fixed))

    def open(self, head: str, index: str = "") -> None:
        """Begins a block in braces; `index`: the variable that its head defines."""
        self._enter(Braces(head, index))

    def close(self) -> None:
        self.body = self._outer.pop()

    def _enter(self, item: Braces | Group) -> None:
        self.body.append(item)
        self._outer.append(self.body)
        self.body = item.body

    @contextlib.contextmanager
    def together(self) -> Generator[None]:
        """Statements that stay together."""
        self._enter(Group())
        yield
        self.close()

    @contextlib.contextmanager
    def separate(self) -> Generator[Body]:
        """A body of another function."""
        self._outer.append(self.body)
        self.body = Body()
        yield self.body
        self.close()

    def new_name(self, letter: str = "v") -> str:
        self._count += 1
        return f"{letter}{self._count}"

    def name(self, thing: Any, text: str) -> None:
        """Sets the text that stands for a variable or a pointer."""
        self._names[thing] = text

    def operand(self, x: Any) -> str:
        """A variable, a pointer or a constant."""
        return literal(x) if isinstance(x, np.generic) else self._names[x]

    def constants(self, key: Any, values: np.ndarray) -> str:
        """The name of a table of constants, one for each key."""
        if key not in self._constants:
            name = self._constants[key] = f"{self.function}_table_{len(self._constants)}"
            kind, texts = c_type(values.dtype), [literal(x) for x in values.reshape(-1)] or ["0"]
            self.tables[name] = f"static const {kind} {name}[] = {{\n{rows_of(texts)}\n}};"
        return self._constants[key]

    def define(self, variable: Variable, text: str, *, is_fixed: bool = False) -> None:
        name = self.new_name()
        self.body.append(Line(text, name, c_type(variable.dtype), is_constant=True, is_fixed=is_fixed))
        self._names[variable] = name

    def declare(self, thing: Any, start: str = "") -> str:
        """Declares what is assigned later; returns its name."""
        kind = c_type(thing.dtype) if isinstance(thing, Variable) else "slot *"
        name = self.new_name("v" if isinstance(thing, Variable) else "p")
        self.body.append(Line(start, name, kind))
        return name

    def set(self, name: str, value: str) -> None:
        """Assigns a value to what was declared."""
        self.body.append(Line(value, name))

    def assign(self, things: Sequence[Any], values: Sequence[Any]) -> None:
        """Assigns values to what was declared, all at once."""
        pairs = [(thing, self.operand(thing), self.operand(x)) for thing, x in zip(things, values, strict=True)]
        pairs = [(thing, name, value) for thing, name, value in pairs if name != value]
        names = {name for _, name, _ in pairs}
        values = [self.declare(thing, value) if value in names else value for thing, _, value in pairs]
        for (_, name, _), value in zip(pairs, values, strict=True):
            self.set(name, value)

    # --- operations ---------------------------------------------------------------------------------------------------

    def program(self, program: Program, arguments: Sequence[str]) -> None:
        self._names.update(zip(program.inputs, arguments, strict=True))
        for operation in program.operations:
            self.operation(operation)

    def operation(self, o: Operation) -> None:
        if o.name in _BLOCKS:
            _BLOCKS[o.name](self, o)
            return
        operands = [(self.operand(x), x.dtype) for x in o.operands]
        self.define(o.results[0], expression(o.name, o.params, operands, o.results[0].dtype))

    def _read(self, o: Operation) -> None:
        array, position = o.operands
        if isinstance(array, ConstantArray):
            name = self.constants((array.values.dtype, array.values.tobytes()), array.values)
            text = f"{name}[{self.operand(position)}]"
        else:
            text = slot_value(f"{self.operand(array)}[{self.operand(position)}]", c_type(o.results[0].dtype))
        self.define(o.results[0], text)

    def _while(self, o: Operation) -> None:
        condition, body = o.params["cond"], o.params["body"]
        names = [self.declare(v, self.operand(x)) for v, x in zip(o.results, o.operands, strict=True)]
        self._names.update(zip(o.results, names, strict=True))
        self.open("for (;;)")
        self.program(condition, names)
        self.leave_unless(condition.outputs[0])
        self.program(body, names)
        self.assign(o.results, body.outputs)
        self.close()

    def leave_unless(self, proceeds: Any) -> None:
        """Ends the loop around unless a condition holds."""
        self.line(f"if (!{self.operand(proceeds)}) {{ break; }}", is_fixed=True)

    def _cond(self, o: Operation) -> None:
        branches, results = o.params["branches"], [(v, self.declare(v)) for v in o.results]

        def branch(program: Program) -> None:
            self.program(program, [])
            for (_, name), x in zip(results, program.outputs, strict=True):
                self.set(name, self.operand(x))

        self.choose(o.operands[0], [lambda program=program: branch(program) for program in branches])
        self._names.update(results)

    def choose(self, which: Any, branches: Sequence[Callable[[], None]]) -> None:
        """One of several blocks; the last one, if none has this number."""
        number, last = self.operand(which), len(branches) - 1
        for k, branch in enumerate(branches):
            condition = "" if k and k == last else f"if ({number} == {k})" if last else "if (true)"
            self.open(f"{'else ' if k else ''}{condition}".strip())
            branch()
            self.close()

    def _rows(self, o: Operation) -> None:
        p = o.params
        n_carry, length, body = p["carried"], p["length"], p["body"]
        inputs, outputs = body.inputs[n_carry:], body.outputs[n_carry:]
        elements, width = o.operands[n_carry:], len(inputs)
        carried = o.results[:n_carry]
        names = [self.declare(v, self.operand(x)) for v, x in zip(body.inputs[:n_carry], o.operands, strict=False)]
        self._names.update(zip(carried, names, strict=True))
        with self.together():
            tables = [
                self.array(c_type(v.dtype), length, [self.operand(x) for x in elements[k::width]])
                for k, v in enumerate(inputs)
            ]
            results = [self.array(c_type(x.dtype), length) for x in outputs]
            i = self.new_name("i")
            up, down = f"{i} = 0; {i} < {length}; ++{i}", f"{i} = {length - 1}; {i} >= 0; --{i}"
            self.open(f"for (int64_t {down if p['reverse'] else up})", i)
            for v, table in zip(inputs, tables, strict=True):
                self.define(v, f"{table}[{i}]", is_fixed=True)
            self.program(body, [*names, *map(self.operand, inputs)])
            for table, x in zip(results, outputs, strict=True):
                self.body.append(Line(self.operand(x), table, is_fixed=True, place=f"[{i}]"))
            self.assign(carried, body.outputs[:n_carry])
            self.close()
            for k, v in enumerate(o.results[n_carry:]):
                self.define(v, f"{results[k % len(results)]}[{k // len(results)}]")

    def array(self, kind: str, length: int, values: Sequence[str] = ()) -> str:
        """A local array."""
        name, start = self.new_name("r"), f"{{{', '.join(values)}}}" if values else ""
        self.body.append(Line(start, name, kind, is_constant=bool(values), place=f"[{max(length, 1)}]"))
        return name

    def _call(self, o: Operation) -> None:
        body = o.params["body"]
        if body not in self.procedures:
            self.procedures[body] = self._procedure(body)
        procedure = self.procedures[body]
        passed = [*procedure.captures, *o.operands]
        with self.together():
            arguments, results = self.array("slot", len(passed)), self.array("slot", len(body.outputs))
            for n, x in enumerate(passed):
                place = slot_member(f"[{n}]", c_type(x.dtype))
                self.body.append(Line(self.operand(x), arguments, place=place))
            pointers = ", ".join([arguments, results, *map(self.operand, procedure.arrays)])
            self.line(f"{procedure.name}({pointers});")
            for n, v in enumerate(o.results):
                self.define(v, slot_value(f"{results}[{n}]", c_type(v.dtype)))

    def _procedure(self, program: Program) -> Procedure:
        """The function of a procedure, whose variables of the surrounding program are arguments as well."""
        outside = [*program.free_variables]
        arrays = [v for v in outside if isinstance(v.dtype, ArrayType)]
        captures = [v for v in outside if v not in arrays]
        before = {v: self._names[v] for v in outside}
        with self.separate() as body:
            for n, v in enumerate((*captures, *program.inputs)):
                self.define(v, slot_value(f"arguments[{n}]", c_type(v.dtype)))
            self._names.update((v, f"array{n}") for n, v in enumerate(arrays))
            self.program(program, [self._names[v] for v in program.inputs])
            for n, x in enumerate(program.outputs):
                self.line(f"{slot_member(f'results[{n}]', c_type(x.dtype))} = {self.operand(x)};")
        self._names.update(before)
        # The procedures that this one calls have their names by now.
        name = f"{self.function}_procedure_{len(self.procedures)}"
        return Procedure(name, arrays, captures, body)


class Procedure(NamedTuple):
    """A function that others call, with arguments and results in slots.

    - `arrays`, `captures`: arrays in memory and variables of the surrounding program that it reads.
    """

    name: str
    arrays: list[Variable]
    captures: list[Variable]
    body: Body

    @property
    def arguments(self) -> list[str]:
        """The names of its arguments."""
        return ["arguments", "results", *(f"array{n}" for n in range(len(self.arrays)))]


_BLOCKS: dict[str, Callable[[ScalarPrinter, Operation], None]] = {
    "while": ScalarPrinter._while,
    "cond": ScalarPrinter._cond,
    "rows": ScalarPrinter._rows,
    "read": ScalarPrinter._read,
    "call": ScalarPrinter._call,
    "elimination": elimination,
}


def rows_of(texts: Sequence[str]) -> str:
    """Texts of constants in rows."""
    return ",\n".join("  " + ", ".join(texts[n : n + 8]) for n in range(0, len(texts), 8))
