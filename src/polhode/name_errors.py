"""Errors for unknown names, with close matches or what to use instead."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from polhode.checks import shown

T = TypeVar("T")

_NEAR = 3
"""Names that a message suggests."""
_LISTED = 12
"""Names that a message lists."""


class UnknownName(KeyError, ValueError):
    """There is nothing of that name; the message says what is near."""

    def __str__(self) -> str:
        return str(self.args[0])


class Known(dict[str, T]):
    """Things by name; a name that isn't there is answered with near ones. `what` says what they are."""

    def __init__(self, what: str, things: Mapping[str, T]) -> None:
        super().__init__(things)
        self._what = what

    def __missing__(self, name: Any) -> T:
        raise unknown(self._what, name, self)


def unknown(what: str, name: Any, known: Iterable[str]) -> UnknownName:
    """The error for a name that isn't there: with near names, or all of a few."""
    names = list(known)
    lowered = {each.lower(): each for each in names}
    word = name.lower() if isinstance(name, str) else ""
    near = [lowered[each] for each in difflib.get_close_matches(word, lowered, n=_NEAR, cutoff=0.5)]
    inside = [each for each in names if word and word in each.lower()]
    close = list(dict.fromkeys((*inside, *near)))[:_NEAR]
    suggestion = f" Did you mean {' or '.join(f'`{each}`' for each in close)}?" if close else ""
    more = f" and {len(names) - _LISTED} more" if len(names) > _LISTED else ""
    listed = ", ".join(names[:_LISTED]) or "none"
    return UnknownName(f"There is no {what} {shown(name)}.{suggestion} There {_are(names)} {listed}{more}.")


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def missing(owner: str, name: str, known: Iterable[str], instead: Mapping[str, str]) -> AttributeError:
    """The error for a name that something lacks.

    **Arguments:**

    - `owner`: how messages call it. - `known`: names that it has.
    - `instead`: name → a sentence on what to use, for names that many try first.
    """
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}.")
    if name in instead:
        return AttributeError(f"{owner} has no attribute {name!r}. {instead[name]}")
    near = difflib.get_close_matches(name, list(known), n=1, cutoff=0.5)
    return AttributeError(f"{owner} has no attribute {name!r}.{f' Did you mean `{near[0]}`?' if near else ''}")


def answering(
    package: str, find: Callable[[str], Any], known: Iterable[str], instead: Mapping[str, str]
) -> Callable[[str], Any]:
    """The `__getattr__` of a package that loads its names with `find`, with such answers."""

    def found(name: str) -> Any:
        try:
            return find(name)
        except AttributeError as error:
            if name in known:
                raise
            raise missing(f"`{package}`", name, known, instead) from error

    return found
