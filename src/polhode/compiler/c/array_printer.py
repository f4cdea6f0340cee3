"""Array programs as functions in C."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, final

from polhode.compiler.arrays.array_ir import (
    Address,
    Allocate,
    Block,
    DivMod,
    Function,
    If,
    Index,
    Load,
    Nest,
    Other,
    Place,
    Pointer,
    Store,
    Switch,
    Table,
    While,
)
from polhode.compiler.arrays.printer import AbstractPrinter
from polhode.compiler.c.code_tree import Line
from polhode.compiler.c.expressions import c_type
from polhode.compiler.c.partition import CutFunction, cut
from polhode.compiler.c.prelude import PRELUDE
from polhode.compiler.c.scalar_printer import ScalarPrinter
from polhode.compiler.c.slots import slot_member, slot_value
from polhode.compiler.scalars.program import Operation, Variable


class CFunction(NamedTuple):
    """A function in C that returns an `int64_t`, with all that is before it in its file.

    - `name`: its name. - `head`: its declaration, without `static`. - `text`: tables, parts and the function itself.
    - `workspace`: slots of eight bytes that its last argument must have. - `stack`: bytes that it takes at most.
    - `operations`: numbers computed in a call in which loops with a condition go round once.
    """

    name: str
    head: str
    text: str
    workspace: int
    stack: int
    operations: int


def print_file(function: Function, name: str = "run") -> CFunction:
    """The same as a whole file."""
    code = print_function(function, name)
    return code._replace(text=f"{PRELUDE}\n{code.head};\n{code.text}\n")


def print_function(function: Function, name: str, *, is_static: bool = False) -> CFunction:
    """A function in C; its arguments are those of `function`, and then memory to work in.

    Raises `UnsupportedNativeOperation` for unsupported operations.
    """
    printer = _Printer(name)
    for argument, pointer in function.arguments.items():
        printer.c.name(pointer, argument)
    printer.block(function.body)
    printer.c.line(f"return {printer.c.operand(function.result)};", is_fixed=True)
    arguments = [*function.arguments, "workspace"]
    procedures = [(each.name, each.arguments, each.body) for each in printer.c.procedures.values()]
    parts: dict[str, CutFunction] = {}
    costs: dict[str, int] = {}
    for each, names, body in procedures:
        # Procedures come after those that they call.
        parts[each] = cut(body, each, names, f"PART void {each}", costs)
        costs[each] = parts[each].operations
    heads = f"int64_t {name}({', '.join(f'slot *{x}' for x in arguments)})"
    last = cut(printer.c.body, name, arguments, f"{'PART ' if is_static else ''}int64_t {name}", costs)
    texts = [*(part.text for part in parts.values()), last.text]
    tables = [text for table, text in printer.c.tables.items() if any(table in each for each in texts)]
    return CFunction(
        name,
        heads,
        "\n".join((*tables, *texts)),
        printer.workspace,
        last.stack + sum(part.stack for part in parts.values()),
        last.operations,
    )


@final
class _Printer(AbstractPrinter):
    """The body of a function under construction.

    - `c`: its text. - `workspace`: slots that it needs.
    """

    def __init__(self, name: str) -> None:
        super().__init__()
        self.c = ScalarPrinter(name)
        self.workspace = 0

    def operation(self, s: Operation) -> None:
        self.c.operation(s)

    # --- memory -------------------------------------------------------------------------------------------------------

    def _index(self, x: Index) -> str:
        return str(x) if isinstance(x, int) else self.c.operand(x)

    def _position(self, place: Place, strides: tuple[int, ...]) -> str:
        """Slots from the first element to that at a place."""
        pairs = [(p, stride) for p, stride in zip(place, strides, strict=True) if stride]
        offset = sum(p * stride for p, stride in pairs if isinstance(p, int))
        terms = [(self._index(p), stride) for p, stride in pairs if not isinstance(p, int)]
        texts = [text if stride == 1 else f"{text} * {stride}" for text, stride in terms]
        return " + ".join([*texts, *([str(offset)] if offset or not texts else [])]).replace("+ -", "- ")

    def _point(self, pointer: Pointer | Variable, text: str) -> None:
        name = self.c.new_name("p")
        self.c.body.append(Line(text, name, "slot *", is_constant=True))
        self.c.name(pointer, name)

    def allocate(self, s: Allocate) -> None:
        self.workspace = max(self.workspace, s.begin + s.slots)
        self.c.name(s.result, f"(workspace + {s.begin})")

    def address(self, s: Address) -> None:
        self._point(s.result, f"{self.c.operand(s.base)} + {self._index(s.slots)}")

    def other(self, s: Other) -> None:
        now, first, second = map(self.c.operand, s[1:])
        self._point(s.result, f"{now} == {first} ? {second} : {first}")

    def load(self, s: Load) -> None:
        position, kind = self._position(s.place, s.strides), c_type(s.result.dtype)
        if isinstance(s.source, Table):
            text = f"{self.c.constants(s.source, s.source.values)}[{position}]"
        else:
            text = slot_value(f"{self.c.operand(s.source)}[{position}]", kind)
        self.c.define(s.result, text)

    def store(self, s: Store) -> None:
        place = f"{self.c.operand(s.target)}[{self._position(s.place, s.strides)}]"
        self.c.line(f"{slot_member(place, c_type(s.value.dtype))} = {self.c.operand(s.value)};")

    def divide(self, s: DivMod) -> None:
        dividend = self._index(s.dividend)
        self.c.define(s.remainder, f"(int64_t)((uint64_t){dividend} % {s.divisor}u)")
        self.c.define(s.quotient, f"(int64_t)((uint64_t){dividend} / {s.divisor}u)")

    # --- loops and branches -------------------------------------------------------------------------------------------

    def nest(self, s: Nest) -> None:
        for index, bound in zip(s.indices, s.bounds, strict=True):
            name = self.c.new_name("i")
            self.c.open(f"for (int64_t {name} = 0; {name} < {self._index(bound)}; ++{name})", name)
            self.c.name(index, name)
        self.block(s.body)
        for _ in s.indices:
            self.c.close()

    def while_(self, s: While) -> None:
        names = [self.c.declare(v, self.c.operand(x)) for v, x in zip(s.carried, s.start, strict=True)]
        for v, name in zip(s.carried, names, strict=True):
            self.c.name(v, name)
        self.c.open("for (;;)")
        self.block(s.condition)
        self.c.leave_unless(s.proceeds)
        self.block(s.body)
        self.c.assign(s.carried, s.following)
        self.c.close()

    def if_(self, s: If) -> None:
        names = [self.c.declare(v, self.c.operand(x)) for v, x in zip(s.results, s.otherwise, strict=True)]
        self.c.open(f"if ({self.c.operand(s.condition)})")
        self._branch(s.block, names, s.values)
        self.c.close()
        for v, name in zip(s.results, names, strict=True):
            self.c.name(v, name)

    def switch(self, s: Switch) -> None:
        names = [self.c.declare(v) for v in s.results]
        branches = zip(s.blocks, s.values, strict=True)
        self.c.choose(s.which, [lambda pair=pair: self._branch(pair[0], names, pair[1]) for pair in branches])
        for v, name in zip(s.results, names, strict=True):
            self.c.name(v, name)

    def _branch(self, block: Block, names: Sequence[str], values: Sequence[Any]) -> None:
        self.block(block)
        for name, x in zip(names, values, strict=True):
            self.c.set(name, self.c.operand(x))
