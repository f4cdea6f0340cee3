"""The interface of printers of array programs: one method for each kind of statement."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, final

from polhode.compiler.arrays.array_ir import (
    Address,
    Allocate,
    Block,
    DivMod,
    If,
    Load,
    Nest,
    Other,
    Store,
    Switch,
    While,
)
from polhode.compiler.scalars.program import Operation


class AbstractPrinter(abc.ABC):
    """The text of one function under construction. Statements append to it in their order.

    Operations on numbers have the meaning that `polhode.compiler.llvm.instructions` gives them.
    """

    def __init__(self) -> None:
        self._methods: dict[type, Callable[[Any], None]] = {
            Operation: self.operation,
            Allocate: self.allocate,
            Address: self.address,
            Other: self.other,
            Load: self.load,
            Store: self.store,
            DivMod: self.divide,
            Nest: self.nest,
            While: self.while_,
            If: self.if_,
            Switch: self.switch,
        }

    @final
    def block(self, statements: Block) -> None:
        """Appends statements."""
        for statement in statements:
            self._methods[type(statement)](statement)

    @abc.abstractmethod
    def operation(self, s: Operation) -> None: ...

    @abc.abstractmethod
    def allocate(self, s: Allocate) -> None: ...

    @abc.abstractmethod
    def address(self, s: Address) -> None: ...

    @abc.abstractmethod
    def other(self, s: Other) -> None: ...

    @abc.abstractmethod
    def load(self, s: Load) -> None: ...

    @abc.abstractmethod
    def store(self, s: Store) -> None: ...

    @abc.abstractmethod
    def divide(self, s: DivMod) -> None: ...

    @abc.abstractmethod
    def nest(self, s: Nest) -> None: ...

    @abc.abstractmethod
    def while_(self, s: While) -> None: ...

    @abc.abstractmethod
    def if_(self, s: If) -> None: ...

    @abc.abstractmethod
    def switch(self, s: Switch) -> None: ...
