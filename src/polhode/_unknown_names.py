"""Answers to names that aren't there: what does it instead, or near names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any


def missing(owner: str, name: str, known: Iterable[str], instead: Mapping[str, str]) -> AttributeError:
    """The error for a name that something lacks.

    **Arguments:**

    - `owner`: how messages call it. - `known`: names that it has.
    - `instead`: name → a sentence on what to use, for names that many try first.
    """
    from difflib import get_close_matches

    if name.startswith("_"):
        return AttributeError(f"{owner} has no attribute {name!r}.")
    if name in instead:
        return AttributeError(f"{owner} has no attribute {name!r}. {instead[name]}")
    near = get_close_matches(name, list(known), n=1, cutoff=0.5)
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
