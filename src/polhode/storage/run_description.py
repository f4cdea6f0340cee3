"""The description of a run in the attributes of its store, whatever its format."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from polhode.json_values import from_plain
from polhode.result_codes import Result
from polhode.storage import frame_layout
from polhode.storage.description import check_description
from polhode.storage.labels import coordinates

Shapes = Mapping[str, tuple[int, ...]]
"""Shapes of the arrays of a run, with the number of frames first, by the names of their leaves."""


class RunDescription(NamedTuple):
    """The attributes of a store: the name of the run, description, statistics, structure of the frames."""

    run: str
    meta: dict[str, Any]
    stats: dict[str, Any]
    structure: frame_layout.Structure

    @classmethod
    def parse(cls, attributes: Mapping[str, Any], shapes_of: Callable[[list[str]], Shapes]) -> RunDescription:
        """The description in some attributes; `shapes_of` returns the shapes of the named arrays that are there.

        Raises ValueError, or another error that `PARSE_ERRORS` has, for anything that runs don't write.
        """
        meta, stats = (from_plain(json.loads(attributes[name])) for name in ("meta", "stats"))
        structure = frame_layout.check_structure(json.loads(attributes["structure"]))
        shapes = shapes_of(frame_layout.names(structure))
        axes = {
            name: frame_layout.dimensions(name, len(shape), shape[-1], meta.get("dimensions") or {})
            for name, shape in shapes.items()
        }
        states = frame_layout.names(frame_layout.part(structure, "state"))
        check_description(meta, stats, [tuple(shapes[name][1:]) for name in states if name in shapes])
        _check_labels(meta.get("names") or {}, axes, shapes)
        result = stats.get("result")
        stats = {**stats, "result": None if result is None else Result[result]}
        return cls(str(attributes["run"]), meta, stats, structure)


PARSE_ERRORS = (ValueError, LookupError, TypeError, AttributeError, ArithmeticError, RecursionError)
"""Errors of descriptions that make no sense."""


def _check_labels(names: dict[str, Any], axes: dict[str, tuple[str, ...]], shapes: Shapes) -> None:
    """Raises ValueError unless a model's parts have as many labels as its arrays have rows for them."""
    labels = coordinates(names, {axis for each in axes.values() for axis in each})
    for name, each in axes.items():
        for axis, length in zip(each, shapes[name], strict=True):
            if axis in labels and len(labels[axis][1]) != length:
                raise ValueError(
                    f"`meta.names` has {len(labels[axis][1])} labels for the {length} of `{axis}` in `{name}`"
                )
