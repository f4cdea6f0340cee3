"""Names that aren't there, and what is near them."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
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
