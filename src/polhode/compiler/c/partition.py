"""Cuts the body of a long function into functions, since the time of C compilers grows faster than a function does.

Variables that several of them use are in an array of slots on the stack of the first one, which the others get. Slots
are used again when no part needs their variable any more.
"""

from __future__ import annotations

import heapq
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

from polhode.compiler.c.code_tree import (
    LOCALS,
    Body,
    Braces,
    Group,
    Item,
    Line,
    lines_of,
    local_names,
    render,
    without_unused,
)
from polhode.compiler.c.slots import slot_member, slot_value

LINES = 400
"""Lines of a function, above which it is cut. gcc -O2 takes 18 s for the 13,000 lines of a step of slider–crank in
generalized-α as one function, and 4 s in parts of this length."""

_SHORTEST = 40
"""Lines of a part, below which they stay where they are."""

_FRAME = 256
"""Bytes of a frame on the stack besides its variables, at most: saved registers, the return address, alignment."""


class CutFunction(NamedTuple):
    """A function and those that it calls: their text, bytes on the stack at most, operations in a call."""

    text: str
    stack: int
    operations: int


class _Call(Line):
    """A call of a part."""

    __slots__ = ("part",)

    def __init__(self, part: _Part) -> None:
        super().__init__("")
        self.part = part


class _Part:
    """A function under construction.

    - `inside`: this part and those that it calls.
    """

    def __init__(self, name: str, body: Body) -> None:
        self.name, self.body = name, body
        self.inside: set[_Part] = {self}


def cut(body: Body, name: str, arguments: Sequence[str], head: str, costs: Mapping[str, int]) -> CutFunction:
    """The function of a body, cut into parts.

    - `arguments`: names of those of type `slot *`. - `head`: what is before these. - `costs`: operations of the
      functions that it may call, by their names.
    """
    cutter = _Cutter(name)
    main = _Part(name, cutter.shorten(without_unused(body)))
    shared = _SharedVariables(main)
    printer = _PartPrinter(main, shared, arguments)
    texts = [printer.text(part, f"PART void {part.name}") for part in cutter.parts]
    texts.append(printer.text(main, head))
    depth = {part: printer.frames[part] for part in printer.frames}
    for part in [*cutter.parts, main]:
        # Parts come after those that they call.
        calls = [depth[each.part] for each in _calls(part.body)]
        depth[part] += max(calls, default=0)
    return CutFunction("\n".join(texts), depth[main] + 8 * shared.size, _operations(main.body, costs))


class _Cutter:
    """Moves statements into parts."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.parts: list[_Part] = []

    def shorten(self, body: Body) -> Body:
        """The same with calls of parts in place of its statements, where it is long."""
        for item in body:
            if not isinstance(item, Line):
                item.body = self.shorten(item.body) if isinstance(item, Braces) else self._inside(item.body)
        if _size(body) <= LINES:
            return body
        short, pending, count = Body(), Body(), 0
        for unit in _units(body):
            size, first = _size(unit), unit[0]
            is_fixed = isinstance(first, Line) and first.is_fixed
            if is_fixed or count + size > LINES:
                short += self._part_of(pending, count)
                pending, count = Body(), 0
            if is_fixed:
                short += unit
            else:
                pending += unit
                count += size
        return Body([*short, *self._part_of(pending, count)])

    def _inside(self, group: Body) -> Body:
        """A group whose blocks are shorter."""
        for item in group:
            if isinstance(item, Braces):
                item.body = self.shorten(item.body)
        return group

    def _part_of(self, body: Body, size: int) -> Body:
        """A call of a part with these statements, unless they are few."""
        if size < _SHORTEST:
            return body
        part = _Part(f"{self._name}_{len(self.parts) + 1}", body)
        part.inside.update(each for call in _calls(body) for each in call.part.inside)
        self.parts.append(part)
        return Body([_Call(part)])


def _size(items: Sequence[Item]) -> int:
    return sum(1 if isinstance(item, Line) else 2 + _size(item.body) for item in items)


def _units(body: Body) -> Iterator[Body]:
    """Statements one by one, those of a choice together."""
    unit = Body()
    for item in body:
        if unit and not (isinstance(item, Braces) and item.is_else):
            yield unit
            unit = Body()
        unit.append(item)
    if unit:
        yield unit


def _calls(body: Body) -> Iterator[_Call]:
    for item in body:
        if isinstance(item, _Call):
            yield item
        elif not isinstance(item, Line):
            yield from _calls(item.body)


def _operations(body: Body, costs: Mapping[str, int], times: int = 1) -> int:
    """Definitions and assignments, those in loops with a fixed number of rounds as often as these go round.

    `costs`: operations of functions by name.
    """
    count = 0
    for item in body:
        if isinstance(item, _Call):
            count += _operations(item.part.body, costs, times)
        elif isinstance(item, Line):
            count += times * (1 + costs.get(item.text.partition("(")[0], 0))
        else:
            rounds = 1
            if isinstance(item, Braces) and item.index:
                bound = item.head.split(";")[1].split()[-1]
                first = item.head.split(";")[0].split()[-1]
                rounds = int(bound) if bound.isdigit() and bound != "0" else int(first) + 1 if first.isdigit() else 1
            count += _operations(item.body, costs, times * rounds)
    return count


# --- shared variables -------------------------------------------------------------------------------------------------


class _Variable:
    """A variable: its type, where it is defined, where it is used, and the last place that needs it."""

    def __init__(self, kind: str, is_constant: bool, home: _Part, begin: int, depth: int) -> None:
        self.kind, self.is_constant, self.home, self.begin, self.depth = kind, is_constant, home, begin, depth
        self.end: int = begin
        self.used: dict[_Part, None] = {}
        self.place = ""

    def value(self) -> str:
        """The number in its slot."""
        return self.place if self.kind == "slot *" else slot_value(self.place, self.kind)

    def member(self) -> str:
        """Where it is assigned."""
        return self.place if self.kind == "slot *" else slot_member(self.place, self.kind)


class _SharedVariables:
    """The variables that several parts use, with their slots.

    - `size`, `pointers`: slots of numbers and of pointers. - `variables`: all, by name.
    """

    def __init__(self, main: _Part) -> None:
        self.variables: dict[str, _Variable] = {}
        self._position = 0
        self._loops: list[list[_Variable]] = []
        self._visit(main, main.body)
        shared = [v for v in self.variables.values() if any(part is not v.home for part in v.used)]
        shared.sort(key=lambda v: v.begin)
        self.pointers = _assign_slots([v for v in shared if v.kind == "slot *"], "pointers")
        numbers = _assign_slots([v for v in shared if v.kind != "slot *"], "crossing")
        self.numbers, self.size = numbers, numbers + self.pointers
        self.used: dict[_Part, list[str]] = {}
        for name, v in self.variables.items():
            for part in v.used if v.place else ():
                self.used.setdefault(part, []).append(name)

    def _visit(self, part: _Part, body: Body) -> None:
        for item in body:
            self._position += 1
            if isinstance(item, _Call):
                self._visit(item.part, item.part.body)
            elif isinstance(item, Line):
                for name in item.names:
                    self._use(name, part)
                if item.kind and item.place:
                    # An array, which is used where it is.
                    continue
                if item.kind:
                    self._define(item.target, item.kind, item.is_constant, part)
                elif item.target:
                    self._use(item.target, part)
            else:
                self._visit_block(part, item)

    def _visit_block(self, part: _Part, item: Braces | Group) -> None:
        is_loop = isinstance(item, Braces) and item.is_loop
        if is_loop:
            self._loops.append([])
        if isinstance(item, Braces):
            if item.index:
                self._define(item.index, "int64_t", True, part)
            for name in local_names(item.head):
                self._use(name, part)
        self._visit(part, item.body)
        if is_loop:
            for variable in self._loops.pop():
                variable.end = max(variable.end, self._position)

    def _define(self, name: str, kind: str, is_constant: bool, part: _Part) -> None:
        self.variables[name] = _Variable(kind, is_constant, part, self._position, len(self._loops))

    def _use(self, name: str, part: _Part) -> None:
        v = self.variables.get(name)
        if v is None:
            return
        v.used[part] = None
        v.end = max(v.end, self._position)
        if len(self._loops) > v.depth:
            # What a loop needs from before it is needed until its end.
            self._loops[v.depth].append(v)


def _assign_slots(variables: Sequence[_Variable], array: str) -> int:
    """Gives each variable a place in an array, in the order of their definitions; returns its length."""
    free: list[int] = []
    busy: list[tuple[int, int]] = []
    size = 0
    for v in variables:
        while busy and busy[0][0] < v.begin:
            heapq.heappush(free, heapq.heappop(busy)[1])
        if not free:
            heapq.heappush(free, size)
            size += 1
        slot = heapq.heappop(free)
        heapq.heappush(busy, (v.end, slot))
        v.place = f"{array}[{slot}]"
    return size


# --- text -------------------------------------------------------------------------------------------------------------


class _PartPrinter:
    """The text of all parts.

    - `frames`: bytes of each on the stack.
    """

    def __init__(self, main: _Part, shared: _SharedVariables, arguments: Sequence[str]) -> None:
        self._main, self._shared, self._arguments = main, shared, arguments
        self._needed: dict[_Part, list[str]] = {}
        self.frames: dict[_Part, int] = {}

    def text(self, part: _Part, head: str) -> str:
        """The text of a part, after those that it calls."""
        is_main, shared = part is self._main, self._shared
        body = self._body(part, part.body)
        if not is_main:
            body = Body([*self._loads(part, self._from_outside(part)), *body])
        lines = [*render(body)]
        types = dict.fromkeys(self._arguments, "slot *") | {"crossing": "slot *", "pointers": "slot **"}
        words = set(itertools.chain.from_iterable(_WORDS.findall(line) for line in lines))
        self._needed[part] = [name for name in types if name in words]
        self.frames[part] = _FRAME + sum(_bytes(item) for item in lines_of(body))
        names = self._arguments if is_main else self._needed[part]
        start = []
        if is_main:
            start += [f"  (void){name};" for name in names if name not in words]
            start += [f"  slot crossing[{shared.numbers}];"] if shared.numbers else []
            start += [f"  slot *pointers[{shared.pointers}];"] if shared.pointers else []
        signature = ", ".join(f"{types[name]}{name}" for name in names) or "void"
        return "\n".join((f"{head}({signature}) {{", *start, *lines, "}"))

    def _from_outside(self, part: _Part) -> list[str]:
        """Shared constants that a part reads, and that neither it nor those that it calls define."""
        variables = self._shared.variables
        return [name for name in self._shared.used.get(part, ()) if variables[name].home not in part.inside]

    def _loads(self, part: _Part, names: Sequence[str]) -> Iterator[Line]:
        for name in names:
            v = self._shared.variables[name]
            if v.is_constant:
                yield Line(v.value(), name, v.kind, is_constant=True)

    def _body(self, part: _Part, body: Body) -> Body:
        """Statements with shared variables in their places."""
        out = Body()
        for item in body:
            if isinstance(item, _Call):
                inner = item.part
                out.append(Line(f"{inner.name}({', '.join(self._needed[inner])});"))
                variables = self._shared.variables
                inner_names = [n for n in self._shared.used.get(part, ()) if variables[n].home in inner.inside]
                out += self._loads(part, [name for name in inner_names if variables[name].home is not part])
            elif isinstance(item, Line):
                out += self._line(item)
            elif isinstance(item, Group):
                group = Group()
                group.body = self._body(part, item.body)
                out.append(group)
            else:
                braces = Braces(self._with_places(item.head), item.index)
                index = self._shared.variables.get(item.index)
                braces.body = self._body(part, item.body)
                if index is not None and index.place:
                    braces.body.insert(0, Line(f"{index.member()} = {item.index};"))
                out.append(braces)
        return out

    def _line(self, item: Line) -> Iterator[Line]:
        text, v = self._with_places(item.text), self._shared.variables.get(item.target)
        if v is None or not v.place:
            yield Line(text, item.target, item.kind, item.is_constant, place=self._with_places(item.place))
        elif v.is_constant:
            yield Line(text, item.target, item.kind, is_constant=True)
            yield Line(f"{v.member()} = {item.target};")
        elif text:
            yield Line(f"{v.member()} = {text};")

    def _with_places(self, text: str) -> str:
        """A text in which shared variables that change are read from their slots."""

        def place(match: re.Match[str]) -> str:
            v = self._shared.variables.get(match[0])
            if v is None or v.is_constant or not v.place:
                return match[0]
            return f"({v.value()})" if v.kind in ("bool", "int32_t") else v.value()

        return LOCALS.sub(place, text)


_WORDS = re.compile(r"\b[a-z_]+\d*\b")


def _bytes(line: Line) -> int:
    """Bytes on the stack of what a line declares."""
    if not line.kind:
        return 0
    return 8 * int(line.place[1:-1]) if line.place else 8
