"""Series of the quantities of bodies, joints, contacts and forces by name, for charts."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np

from polhode.results.quantity import declarations


class Series(NamedTuple):
    """A quantity of a body, joint, contact or force, or its part with one label.

    - `of`, `name`: whose and what. - `values`: (n,) or (n, 3). - `kind`: "angle", "force", …, or empty.
    - `first`: whether it is shown initially.
    """

    of: str
    name: str
    values: np.ndarray
    kind: str
    first: bool


def series(things: Mapping[str, Any]) -> Iterator[Series]:
    """All quantities that have a title, where the run has them."""
    for name, thing in things.items():
        for each in declarations(type(thing)):
            if each.title is None or not each.applies(thing):
                continue
            values = get_or_empty(thing, each.name)
            parts = values if each.over else {"": values} if len(values) else {}
            for label, part in parts.items():
                first = each.first and len(parts) == 1
                yield Series(name, each.title_of(thing, label), np.asarray(part), each.kind_of(thing, label), first)


def outputs(things: Mapping[str, Any]) -> set[str]:
    """Names of the outputs that these series show."""
    quantities = {each for thing in things.values() for each in declarations(type(thing)) if each.title is not None}
    return {array.split(".")[0] for each in quantities for array in each.arrays}


def get_or_empty(thing: Any, name: str) -> Any:
    """A quantity of a body, joint, contact or force; empty if the run doesn't have it."""
    with contextlib.suppress(KeyError):
        return getattr(thing, name)
    return {}
