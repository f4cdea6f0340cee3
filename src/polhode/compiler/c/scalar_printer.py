"""Programs on scalars in C: every operation is the definition of a constant."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from polhode.compiler.c.expressions import c_type, expression, literal
from polhode.compiler.scalars.program import ConstantArray, Operation, Program, Variable


class ScalarPrinter:
    """The body of one function under construction.

    - `lines`: its text so far. - `tables`: constants before the function.

    **Arguments:**

    - `function`: its name.
    """

    def __init__(self, function: str) -> None:
        self.lines: list[str] = []
        self.tables: list[str] = []
        self._function = function
        self._constants: dict[Any, str] = {}
        self._depth = 1
        self._names: dict[Any, str] = {}
        self._count = 0

    # --- text ---------------------------------------------------------------------------------------------------------

    def line(self, text: str) -> None:
        self.lines.append("  " * self._depth + text)

    def open(self, text: str) -> None:
        """Begins a block in braces."""
        self.line(f"{text} {{")
        self._depth += 1

    def close(self) -> None:
        self._depth -= 1
        self.line("}")

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
            name = self._constants[key] = f"{self._function}_table_{len(self._constants)}"
            kind, texts = c_type(values.dtype), [literal(x) for x in values.reshape(-1)] or ["0"]
            lines = [", ".join(texts[n : n + 8]) for n in range(0, len(texts), 8)]
            self.tables.append(f"static const {kind} {name}[] = {{\n  " + ",\n  ".join(lines) + "};")
        return self._constants[key]

    def define(self, variable: Variable, text: str) -> None:
        name = self.new_name()
        self.line(f"const {c_type(variable.dtype)} {name} = {text};")
        self._names[variable] = name

    def declare(self, thing: Any, start: str = "") -> str:
        """Declares what is assigned later; returns its name."""
        kind = f"{c_type(thing.dtype)} " if isinstance(thing, Variable) else "slot *"
        name = self.new_name("v" if isinstance(thing, Variable) else "p")
        self.line(f"{kind}{name}{f' = {start}' if start else ''};")
        return name

    def assign(self, things: Sequence[Any], values: Sequence[Any]) -> None:
        """Assigns values to what was declared, all at once."""
        pairs = [(thing, self.operand(thing), self.operand(x)) for thing, x in zip(things, values, strict=True)]
        pairs = [(thing, name, value) for thing, name, value in pairs if name != value]
        names = {name for _, name, _ in pairs}
        values = [self.declare(thing, value) if value in names else value for thing, _, value in pairs]
        for (_, name, _), value in zip(pairs, values, strict=True):
            self.line(f"{name} = {value};")

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
        self.line(f"if (!{self.operand(condition.outputs[0])}) {{ break; }}")
        self.program(body, names)
        self.assign(o.results, body.outputs)
        self.close()

    def _cond(self, o: Operation) -> None:
        branches, results = o.params["branches"], [(v, self.declare(v)) for v in o.results]

        def branch(program: Program) -> None:
            self.program(program, [])
            for (_, name), x in zip(results, program.outputs, strict=True):
                self.line(f"{name} = {self.operand(x)};")

        self.choose(o.operands[0], [lambda program=program: branch(program) for program in branches])
        self._names.update(results)

    def choose(self, which: Any, branches: Sequence[Callable[[], None]]) -> None:
        """One of several blocks; the last one, if none has this number."""
        number = self.operand(which)
        for k, branch in enumerate(branches):
            is_last = k == len(branches) - 1
            self.open(
                "else" if k and is_last else f"{'else ' if k else ''}if ({'true' if is_last else f'{number} == {k}'})"
            )
            branch()
            self.close()

    def _rows(self, o: Operation) -> None:
        p = o.params
        n_carry, length, body = p["carried"], p["length"], p["body"]
        inputs, outputs = body.inputs[n_carry:], body.outputs[n_carry:]
        elements, width = o.operands[n_carry:], len(inputs)
        tables = [self._table(v, length, [self.operand(x) for x in elements[k::width]]) for k, v in enumerate(inputs)]
        results = [self._table(x, length) for x in outputs]
        names = [self.declare(v, self.operand(x)) for v, x in zip(body.inputs[:n_carry], o.operands, strict=False)]
        carried = o.results[:n_carry]
        self._names.update(zip(carried, names, strict=True))
        i = self.new_name("i")
        up, down = f"int {i} = 0; {i} < {length}; ++{i}", f"int {i} = {length - 1}; {i} >= 0; --{i}"
        self.open(f"for ({down if p['reverse'] else up})")
        self.program(body, [*names, *(f"{table}[{i}]" for table in tables)])
        for table, x in zip(results, outputs, strict=True):
            self.line(f"{table}[{i}] = {self.operand(x)};")
        self.assign(carried, body.outputs[:n_carry])
        self.close()
        for k, v in enumerate(o.results[n_carry:]):
            self._names[v] = f"{results[k % len(results)]}[{k // len(results)}]"

    def _call(self, o: Operation) -> None:
        """Inlined: its variables get new names."""
        body = o.params["body"]
        self.program(body, [self.operand(x) for x in o.operands])
        self._names.update(zip(o.results, [self.operand(x) for x in body.outputs], strict=True))

    def _table(self, like: Any, length: int, values: Sequence[str] = ()) -> str:
        """A local array."""
        name = self.new_name("r")
        const, start = ("const ", f" = {{{', '.join(values)}}}") if values else ("", "")
        self.line(f"{const}{c_type(like.dtype)} {name}[{max(length, 1)}]{start};")
        return name


_BLOCKS: dict[str, Callable[[ScalarPrinter, Operation], None]] = {
    "while": ScalarPrinter._while,
    "cond": ScalarPrinter._cond,
    "rows": ScalarPrinter._rows,
    "read": ScalarPrinter._read,
    "call": ScalarPrinter._call,
}


def slot_value(slot: str, kind: str) -> str:
    """The number of a C type in a slot of memory."""
    if kind == "double":
        return f"{slot}.number"
    whole = f"{slot}.integer"
    return f"{whole} & 1" if kind == "bool" else whole if kind == "int64_t" else f"({kind}){whole}"
