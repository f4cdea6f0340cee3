"""Every space that is exported is in the table that the conformance suite runs on, by itself or within others."""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Iterator
from typing import Any

from space_table import CASES

from polhode import spaces


def within(space: Any) -> Iterator[type]:
    """The classes of a space and of all that it is made of."""
    if isinstance(space, tuple):
        for part in space:
            yield from within(part)
    elif isinstance(space, spaces.AbstractSpace):
        yield type(space)
        for field in dataclasses.fields(space):
            yield from within(getattr(space, field.name))


def test_every_space_has_a_row() -> None:
    exported = {x for x in vars(spaces).values() if inspect.isclass(x) and issubclass(x, spaces.AbstractSpace)}
    concrete = {x for x in exported if not inspect.isabstract(x)}
    covered = {x for case in CASES.values() for x in within(case.space)}
    assert concrete <= covered, concrete - covered
    assert len(concrete) >= 17
