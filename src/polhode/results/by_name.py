"""Bodies, joints and forces of a run by name."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any, Generic, TypeVar

from polhode.checks import short_repr
from polhode.name_errors import UnknownName, unknown_name
from polhode.printable import printable

T = TypeVar("T")

_KINDS = {"body": "bodies", "joint": "joints", "force": "forces"}
"""Kinds of named things in a run, and the attributes of runs that hold them."""


class ByName(Mapping[str, T], Generic[T]):
    """Bodies, joints or forces of a run by name, also as attributes where names are words of Python."""

    def __init__(
        self, what: str, names: list[str], make: Callable[[str], T], why_none: str, model_names: Mapping[str, Any]
    ) -> None:
        """`model_names`: all names of the model by kind, so that errors can say which kind has a name."""
        self._what, self._names, self._make = what, names, make
        self._why_none, self._model_names = why_none, model_names

    def __getitem__(self, name: str) -> T:
        if name not in self._names:
            owners = (kind for kind, plural in _KINDS.items() if name in list(self._model_names.get(plural, ())))
            kind = next(owners, None)
            if kind is not None:
                raise UnknownName(
                    f"There is no {self._what} {short_repr(name)}, but a {kind} of this name: "
                    f"`run.{_KINDS[kind]}[{name!r}]`."
                )
            if not self._names:
                raise UnknownName(f"There is no {self._what} {short_repr(name)}: {self._why_none}")
            raise unknown_name(self._what, name, self._names)
        return self._make(name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return printable(f"{{{', '.join(self._names)}}}")

    def _ipython_key_completions_(self) -> list[str]:
        return self._names
