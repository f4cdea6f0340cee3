"""Intermediate representation of array programs: loops over buffers, as data.

A `Function` is a block of statements in order, made by the modules beside this one and printed by `llvm_printer.py` and
`polhode.compiler.c`. Numbers are the variables of programs on scalars, and are assigned once; so statements include the
operations of `polhode.compiler.scalars.program`, and a program on scalars is called by having its operations in a
block. A statement sees what was defined before it, in its own block or around it; the body of a `While` also sees what
its condition defines. Operations are those of IEEE 754 in the order of the statements, so that all printers give
the same bytes.

Arrays are in memory, in slots of eight bytes: floats as they are, integers and truth values as integers of 64 bits.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

import numpy as np

from polhode.compiler.scalars.program import Operation, Variable

Scalar: TypeAlias = Variable | np.generic
"""A number: a variable or a constant."""

Index: TypeAlias = int | Variable | np.generic
"""An index along an axis. Makers do arithmetic with those that are `int`."""

Place: TypeAlias = tuple[Index, ...]
"""The indices of an element."""


class Pointer:
    """A slot of memory, and those after it.

    **Arguments:**

    - `name`: if it is an argument of the function. Memory of arguments of different names does not overlap.
    """

    __slots__ = ("name",)

    def __init__(self, name: str = "") -> None:
        self.name = name


class Table:
    """Constants in memory, in row-major order."""

    __slots__ = ("values",)

    def __init__(self, values: np.ndarray) -> None:
        self.values = values


class Allocate(NamedTuple):
    """`result` points to this part of the workspace, whose content is undefined."""

    result: Pointer
    begin: int
    slots: int


class Address(NamedTuple):
    """`result` points so many slots after `base`; it is a pointer, or an array of a program on scalars."""

    result: Pointer | Variable
    base: Pointer
    slots: Index


class Other(NamedTuple):
    """`result` is `second` if `now` is `first`, and else `first`: memory that is not in use."""

    result: Pointer
    now: Pointer
    first: Pointer
    second: Pointer


class Load(NamedTuple):
    """Reads the element at a place. `strides`: slots, or elements of a table, from one to the next along each axis."""

    result: Variable
    source: Pointer | Table
    place: Place
    strides: tuple[int, ...]


class Store(NamedTuple):
    """Writes the element at a place."""

    target: Pointer
    place: Place
    strides: tuple[int, ...]
    value: Scalar


class DivMod(NamedTuple):
    """Quotient and remainder of an index that is not negative."""

    quotient: Variable
    remainder: Variable
    dividend: Index
    divisor: int


class Nest(NamedTuple):
    """Nested loops: the body is executed for all indices from 0 to below their bounds, the last one changing first.

    `independent`: no iteration reads what another one writes, so that they may be done in any order or side by side.
    """

    indices: tuple[Variable, ...]
    bounds: tuple[Index, ...]
    body: Block
    independent: bool


class While(NamedTuple):
    """A loop while a condition holds. Carried variables and pointers begin as `start` and are visible afterwards.

    Each iteration executes `condition`, ends the loop unless `proceeds`, executes `body`, and assigns `following` to
    them, all at once.
    """

    carried: tuple[Variable | Pointer, ...]
    start: tuple[Scalar | Pointer, ...]
    condition: Block
    proceeds: Scalar
    body: Block
    following: tuple[Scalar | Pointer, ...]


class If(NamedTuple):
    """Executes a block if a condition holds. Each result is one of two values accordingly."""

    condition: Scalar
    block: Block
    results: tuple[Variable, ...] = ()
    values: tuple[Scalar, ...] = ()
    otherwise: tuple[Scalar, ...] = ()


class Switch(NamedTuple):
    """Executes one of several blocks: that of number `which`, a truth value or within their range.

    `values`: of the results, for each block.
    """

    which: Scalar
    blocks: tuple[Block, ...]
    results: tuple[Variable | Pointer, ...]
    values: tuple[tuple[Scalar | Pointer, ...], ...]


Statement: TypeAlias = Operation | Allocate | Address | Other | Load | Store | DivMod | Nest | While | If | Switch

Block: TypeAlias = list[Statement]


class Function(NamedTuple):
    """A function of pointers that returns an integer."""

    arguments: dict[str, Pointer]
    body: Block
    result: Scalar


def pointers_of(names: Sequence[str]) -> dict[str, Pointer]:
    """The arguments of a function, by name."""
    return {name: Pointer(name) for name in names}
