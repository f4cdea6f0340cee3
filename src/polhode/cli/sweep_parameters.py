"""Parameters of a sweep from the command line."""

from __future__ import annotations

import csv
import io
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polhode.checks import short_repr

if TYPE_CHECKING:
    import numpy as np

_MOST = 1_000_000
_LONGEST = 64 << 20
"""Largest number of characters of a table."""
_DRAWS = ("normal", "uniform")


def members(parameters: list[str], samples: Path | None, seeds: int | None) -> dict[str, Any]:
    """Arguments of `polhode.ensemble`. Raises ValueError for options that define no members."""
    if samples is not None:
        if parameters or seeds is not None:
            raise ValueError("Give `--samples`, which has every member, or `--param`, not both.")
        return {"samples": table(samples)}
    if not parameters:
        raise ValueError("A sweep needs `--param NAME=VALUES`, once for each, or `--samples FILE.csv`.")
    texts = dict(_split_assignments(parameters))
    if len(texts) != len(parameters):
        raise ValueError("A parameter is given twice by `--param`.")
    if seeds is None:
        return {"parameters": {name: values(name, text) for name, text in texts.items()}}
    draws = {name: draw(name, text) for name, text in texts.items()}
    return {"samples": lambda random: {name: each(random) for name, each in draws.items()}, "seeds": seeds}


def values(name: str, text: str) -> list[float]:
    """Numbers written as `1,2,3`, or as `LOW:HIGH:COUNT` with both ends included."""
    import numpy as np

    try:
        low, *others = text.split(":")
        if not others:
            return [float(word) for word in low.split(",")]
        high, count = others
        if 1 <= int(count) <= _MOST:
            return np.linspace(float(low), float(high), int(count)).tolist()
    except ValueError:
        pass
    raise ValueError(
        f"`--param {name}=…` takes numbers, 1,2,3, or LOW:HIGH:COUNT, COUNT at most {_MOST}, got {short_repr(text)}. "
        "With `--seeds N`, it takes normal:MEAN:DEVIATION or uniform:LOW:HIGH."
    )


def draw(name: str, text: str) -> Callable[[np.random.Generator], float]:
    """A distribution: `normal:MEAN:DEVIATION` or `uniform:LOW:HIGH`."""
    kind, *numbers = text.split(":")
    try:
        first, second = map(float, numbers)
    except ValueError:
        kind, first, second = "", 0.0, 0.0
    width = second if kind == "normal" else second - first
    if kind not in _DRAWS or not (math.isfinite(first) and math.isfinite(width)) or width < 0:
        raise ValueError(
            f"`--param {name}=…` with `--seeds` takes normal:MEAN:DEVIATION or uniform:LOW:HIGH, got "
            f"{short_repr(text)}."
        )
    return lambda random: getattr(random, kind)(first, second)


def table(path: Path) -> dict[str, list[float]]:
    """Columns of a CSV file, whose first row has their names. Raises ValueError for anything else."""
    try:
        # Some programs write a byte-order mark.
        with path.open(newline="", encoding="utf-8-sig") as file:
            text = file.read(_LONGEST + 1)
        if len(text) > _LONGEST:
            raise ValueError(f"it has more than {_LONGEST} characters")
        rows = [[word.strip() for word in row] for row in csv.reader(io.StringIO(text, newline="")) if row]
    except (OSError, ValueError, csv.Error) as error:
        raise ValueError(f"`--samples {path}` can't be read as a table: {error}.") from None
    if not rows:
        raise ValueError(f"`--samples {path}` is empty; its first row must have the names of parameters.")
    names, *rows = rows
    if len(set(names)) != len(names):
        raise ValueError(f"`--samples {path}` has two columns of one name.")
    columns: dict[str, list[float]] = {name: [] for name in names}
    for number, row in enumerate(rows, 2):
        try:
            for name, word in zip(names, row, strict=True):
                columns[name].append(float(word))
        except ValueError:
            raise ValueError(f"`--samples {path}`, row {number}: {len(names)} numbers are needed, got {row}.") from None
    return columns


def _split_assignments(parameters: list[str]) -> list[tuple[str, str]]:
    assignments = []
    for text in parameters:
        name, equals, rest = text.partition("=")
        if not equals or not name.strip() or not rest.strip():
            raise ValueError(f"`--param` takes NAME=VALUES, got {short_repr(text)}.")
        assignments.append((name.strip(), rest.strip()))
    return assignments
