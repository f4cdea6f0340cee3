"""Calls that make a model: kept, so that it can be made again, and undone where they raise."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from polhode.execution.eager import uncompiled
from polhode.model.register import Register


class Call(NamedTuple):
    """A call that has added something to a model, and what it returned."""

    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    result: Any


class History:
    """Calls in their order, without those that they made themselves."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.within_call = False


class Growing(Protocol):
    """A model, as calls add to it."""

    register: Register
    parts: list[Any]
    history: History


G = TypeVar("G", bound=Growing)
P = ParamSpec("P")
T = TypeVar("T")


def recorded(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """A method that leaves the model as it was if it raises, so that the corrected call can follow."""

    @functools.wraps(method)
    def wrapped(self: G, /, *args: P.args, **options: P.kwargs) -> T:
        undo, parts = self.register.undoing(), len(self.parts)
        outermost, self.history.within_call = not self.history.within_call, True
        try:
            with uncompiled():
                result = method(self, *args, **options)
            if outermost:
                self.history.calls.append(Call(method.__name__, args, options, result))
            return result
        except BaseException:
            undo()
            del self.parts[parts:]
            raise
        finally:
            self.history.within_call = not outermost

    return wrapped
