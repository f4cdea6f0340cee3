"""Errors for unknown names, with close matches or what to use instead."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeVar

from polhode.checks import short_repr

T = TypeVar("T")

_MOST_SUGGESTED = 3
"""Names that a message suggests."""
_MOST_LISTED = 12
"""Names that a message lists."""


class UnknownName(KeyError, ValueError):
    """An unknown name; the message lists close matches."""

    def __str__(self) -> str:
        return str(self.args[0])


class NameDict(dict[str, T]):
    """A dictionary whose error for an unknown name lists close matches. `what` names its things in messages."""

    def __init__(self, what: str, things: Mapping[str, T]) -> None:
        super().__init__(things)
        self._what = what

    def __missing__(self, name: Any) -> T:
        raise unknown_name(self._what, name, self)


def unknown_name(what: str, name: Any, candidates: Iterable[str]) -> UnknownName:
    """The error for an unknown name, with close matches and the known names."""
    names = list(candidates)
    lower_case = {each.lower(): each for each in names}
    word = name.lower() if isinstance(name, str) else ""
    near = [lower_case[each] for each in difflib.get_close_matches(word, lower_case, n=_MOST_SUGGESTED, cutoff=0.5)]
    inside = [each for each in names if word and word in each.lower()]
    close = list(dict.fromkeys((*inside, *near)))[:_MOST_SUGGESTED]
    suggestion = f" Did you mean {' or '.join(f'`{each}`' for each in close)}?" if close else ""
    more = f" and {len(names) - _MOST_LISTED} more" if len(names) > _MOST_LISTED else ""
    names_text = ", ".join(names[:_MOST_LISTED]) or "none"
    return UnknownName(f"There is no {what} {short_repr(name)}.{suggestion} There {_are(names)} {names_text}{more}.")


def _are(names: list[str]) -> str:
    return "is" if len(names) == 1 else "are"


def missing_attribute(owner: str, name: str, candidates: Iterable[str], instead: Mapping[str, str]) -> AttributeError:
    """The error for a missing attribute.

    **Arguments:**

    - `owner`: its name in messages. - `candidates`: names that it has.
    - `instead`: name → a sentence on what to use, for names that users often try first.
    """
    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}.")
    if name in instead:
        return AttributeError(f"{owner} has no attribute {name!r}. {instead[name]}")
    near = difflib.get_close_matches(name, list(candidates), n=1, cutoff=0.5)
    return AttributeError(f"{owner} has no attribute {name!r}.{f' Did you mean `{near[0]}`?' if near else ''}")


def getattr_with_suggestions(
    package: str, find: Callable[[str], Any], candidates: Iterable[str], instead: Mapping[str, str]
) -> Callable[[str], Any]:
    """The `__getattr__` of a package that loads its names with `find`, with the errors of `missing_attribute`."""

    def get(name: str) -> Any:
        try:
            return find(name)
        except AttributeError as error:
            if name in candidates:
                raise
            raise missing_attribute(f"`{package}`", name, candidates, instead) from error

    return get
