"""Recorded calls that build a model, for rebuilding it; calls that raise are rolled back."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, Concatenate, NamedTuple, ParamSpec, Protocol, TypeVar

from polhode import checks
from polhode.assembly.name_registry import Register
from polhode.compiler.numpy.eager import eager_numpy


class Call(NamedTuple):
    """A call that has added something to a model, with its result."""

    name: str
    arguments: tuple[Any, ...]
    options: dict[str, Any]
    result: Any


class History:
    """Calls in order, without nested ones."""

    def __init__(self) -> None:
        self.calls: list[Call] = []
        self.within_call = False
        # Fingerprints have what the calls have made; lists instead of tuples make no other model.
        self._identity = ()


class RecordableModel(Protocol):
    """A model whose calls are recorded."""

    register: Register
    parts: list[Any]
    rods: list[Any]
    contact_rules: list[Any]
    history: History


G = TypeVar("G", bound=RecordableModel)
P = ParamSpec("P")
T = TypeVar("T")


def record_call(method: Callable[Concatenate[G, P], T]) -> Callable[Concatenate[G, P], T]:
    """Decorator of methods of a model: records the call, and restores the model if it raises."""

    names = tuple(inspect.signature(method).parameters)[1:]

    @functools.wraps(method)
    def wrapper(self: G, /, *args: P.args, **options: P.kwargs) -> T:
        for name in options:
            if name not in names:
                raise _unknown(method.__name__, name, names)
        undo, parts, rules = self.register.savepoint(), len(self.parts), len(self.contact_rules)
        rods = len(self.rods)
        outermost, self.history.within_call = not self.history.within_call, True
        try:
            with eager_numpy():
                result = method(self, *args, **options)
            if outermost:
                self.history.calls.append(Call(method.__name__, args, options, result))
            return result
        except BaseException:
            undo()
            del self.parts[parts:], self.contact_rules[rules:], self.rods[rods:]
            raise
        finally:
            self.history.within_call = not outermost

    return wrapper


_LOOKS = (
    'Shapes have colours and meshes: `shape=polhode.shapes.Box((1, 1, 1), colour="#aa3333")`, '
    "`shape=polhode.shapes.ConvexMesh(vertices)`. Bodies without a shape are drawn as blocks with their moments of "
    "inertia."
)
_INSTEAD = {
    **dict.fromkeys(("colour", "color", "mesh"), _LOOKS),
    **dict.fromkeys(("geometry", "size", "shapes"), "Shapes come by `shape=polhode.shapes.Box(…)`."),
    **dict.fromkeys(("orientation", "quaternion", "attitude"), "It is called `rotation`."),
    **dict.fromkeys(("pos", "x", "origin", "com"), "It is called `position`, of the centre of mass."),
    **dict.fromkeys(("omega", "spin", "w"), "It is called `angular_velocity`, body-fixed."),
    **dict.fromkeys(("fixed", "static"), "Bodies that don't move are parts of `model.ground`; or add a joint `Fixed`."),
}
"""Hints for common wrong names of arguments."""


def _unknown(method: str, name: str, names: tuple[str, ...]) -> TypeError:
    """The error for an unknown argument."""
    remedy = _INSTEAD.get(name, checks.nearest(name, names).strip() or f"It takes {', '.join(names)}.")
    return TypeError(f"`{method}` has no argument {name!r}. {remedy}")
