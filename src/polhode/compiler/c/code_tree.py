"""The body of a function in C as a tree of lines and blocks, so that it can be shortened and cut.

Names of local variables are a letter of `LOCALS` and a number, and each occurs in one function only.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import TypeAlias

LOCALS = re.compile(r"\b[vpiabr]\d+\b")
"""Names of local variables: values, pointers, indices, and arrays."""


class Line:
    """One statement.

    - `text`: the statement; for definitions and assignments the value, "" for a declaration without one.
    - `target`: the variable or array that it sets, or "". - `kind`: its type if it begins to exist here, or "".
    - `is_constant`: whether it never changes. - `is_fixed`: whether the line belongs to its loop, as `break` does.
    - `place`: what follows the name of an array: its length, or the element that is set.
    """

    __slots__ = ("is_constant", "is_fixed", "kind", "place", "target", "text")

    def __init__(
        self,
        text: str,
        target: str = "",
        kind: str = "",
        is_constant: bool = False,
        is_fixed: bool = False,
        place: str = "",
    ) -> None:
        self.text, self.target, self.kind, self.place = text, target, kind, place
        self.is_constant, self.is_fixed = is_constant, is_fixed

    @property
    def names(self) -> list[str]:
        """The local variables that it reads."""
        return local_names(self.text) + (local_names(self.place) if self.place else [])

    def __str__(self) -> str:
        if not self.target:
            return self.text
        head = f"{self.target}{self.place}"
        if self.kind:
            constant = "const " if self.is_constant else ""
            head = f"slot *{constant}{head}" if self.kind == "slot *" else f"{constant}{self.kind} {head}"
        return f"{head} = {self.text};" if self.text else f"{head};"


class Braces:
    """A block after a head, such as `for (…)`.

    - `index`: the variable of type `int64_t` that the head defines for the block, or "". - `is_loop`: whether it
      repeats. - `is_else`: whether it follows the block before it.
    """

    __slots__ = ("body", "head", "index", "is_else", "is_loop")

    def __init__(self, head: str, index: str = "") -> None:
        self.head, self.index, self.body = head, index, Body()
        self.is_loop, self.is_else = head.startswith("for"), head.startswith("else")


class Group:
    """Statements that stay together: arrays that only they use are declared among them."""

    __slots__ = ("body",)

    def __init__(self) -> None:
        self.body = Body()


Item: TypeAlias = Line | Braces | Group


class Body(list[Item]):
    """Statements in order."""


def local_names(text: str) -> list[str]:
    """The local variables in a text."""
    return LOCALS.findall(text)


def lines_of(body: Body) -> Iterator[Line]:
    """All lines, those inside of blocks included."""
    for item in body:
        if isinstance(item, Line):
            yield item
        else:
            yield from lines_of(item.body)


def render(body: Body, depth: int = 1) -> Iterator[str]:
    """The text of statements, line by line."""
    for item in body:
        if isinstance(item, Line):
            yield f"{'  ' * depth}{item}"
        elif isinstance(item, Group):
            yield from render(item.body, depth)
        else:
            yield f"{'  ' * depth}{item.head} {{"
            yield from render(item.body, depth + 1)
            yield f"{'  ' * depth}}}"


def without_unused(body: Body) -> Body:
    """The same without definitions and assignments that nothing reads."""
    sources: dict[str, list[str]] = {}
    pending: list[str] = []
    _collect(body, sources, pending)
    used = set(pending)
    while pending:
        for name in sources.get(pending.pop(), ()):
            if name not in used:
                used.add(name)
                pending.append(name)
    return _only(body, used)


def _collect(body: Body, sources: dict[str, list[str]], needed: list[str]) -> None:
    """The operands of the value of each variable; `needed` receives what has an effect."""
    for item in body:
        if not isinstance(item, Line):
            needed += local_names(item.head) if isinstance(item, Braces) else ()
            _collect(item.body, sources, needed)
        elif item.target:
            sources.setdefault(item.target, []).extend(item.names)
        else:
            needed += item.names


def _only(body: Body, used: set[str]) -> Body:
    kept = Body()
    for item in body:
        if isinstance(item, Line):
            if not item.target or item.target in used:
                kept.append(item)
            continue
        item.body = _only(item.body, used)
        kept.append(item)
    return kept
