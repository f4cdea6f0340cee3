"""Descriptions of problems in the metadata of runs, in plain values."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import jax
import numpy as np
from jax.core import Tracer

from polhode.results import declarations

if TYPE_CHECKING:
    from polhode.problem import Problem


def describe_names(problem: Problem | None, outputs: Iterable[str]) -> dict[str, Any]:
    """Bodies and joints by name, and the axes of outputs."""
    name_table = problem.named if problem else None
    if name_table is None:
        return {}
    outputs = outputs if name_table.outputs else ()
    dimensions = {name: list(axes) for name, axes in declarations.axes().items() if name.split(".")[0] in outputs}
    if "contacts" in name_table.metadata:
        dimensions["multipliers"] = ["multiplier"]
    return {"names": plain_values(dict(name_table.metadata)), **({"dimensions": dimensions} if dimensions else {})}


def describe_problem(problem: Problem | None) -> dict[str, Any]:
    """Plain values from which the problem can be rebuilt, if it is a named one or that of a file."""
    return {
        "problem": problem.name if problem else None,
        **({"origin": problem.origin} if problem and problem.origin else {}),
        "parameters": plain_values(dict(problem.parameters)) if problem else {},
    }


def plain_values(value: Any) -> Any:
    """Values that survive JSON: arrays become lists, tracers their description."""
    if isinstance(value, dict):
        return {k: plain_values(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [plain_values(v) for v in value]
    if isinstance(value, Tracer):
        return "traced"
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return np.asarray(value).tolist()
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
