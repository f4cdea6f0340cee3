"""Descriptions of a run and of its audit in sentences."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode.json_values import to_plain
from polhode.result_codes import TIMES
from polhode.viewing import unit_labels

if TYPE_CHECKING:
    from polhode.results.audit.table import Audit, Row
    from polhode.results.protocols import Run

_LONGEST = 90
_MOST_COORDINATES = 40
"""Joint coordinates that the page of a start lists."""
_NOTHING: tuple[Any, ...] = (None, "", {}, [], ())
"""Values of parameters that are not shown."""
_PROMISES = {
    "round-off": "to round-off",
    "newton": "to the tolerance of the nonlinear solve",
    "bounded": "to swing without growing",
}


def sentences(audit: Audit, solution: Run) -> list[dict[str, str]]:
    """One sentence for each quantity, with its verdict."""
    residuals, meta = solution.residuals, solution.meta
    return [{"verdict": row.verdict, "text": _sentence(row, row.quantity in residuals, meta)} for row in audit]


def _sentence(row: Row, residual: bool, meta: Mapping[str, Any]) -> str:
    name = row.quantity.replace("_", " ")
    # Residuals are mixtures of lengths and cosines.
    size = f"{_number(row.max_drift)} {'' if residual else unit_labels.of(name, meta)}".rstrip()
    subject = f"The {name} residual" if residual else f"{name[:1].upper()}{name[1:]}"
    change = f"stayed below {size}" if residual else f"drifted by {size}"
    if row.relative and not residual:
        change += f" ({_number(row.relative, 1)} of its size)"
    still = "stayed zero" if residual else "did not drift"
    did = f"{subject} {change if row.max_drift else still}"
    promise = _PROMISES.get(row.promise or "", f"to {row.promise}")
    endings = {
        "kept": f", as promised ({promise})",
        "broken": f"; the method promised to keep it {promise}",
        "undecided": f"; whether that keeps the promise ({promise}) this run can't tell",
        "between steps": "; the promise holds at the ends of steps, more than that comes from interpolation between",
        "not promised": ", not promised",
    }
    return f"{did}{endings[row.verdict]}."


def _number(value: float, digits: int = 2) -> str:
    return f"{value:.{digits}g}".replace("e-0", "e-").replace("e+0", "e").replace("e+", "e")


def headline(meta: Mapping[str, Any]) -> list[str]:
    """The method with its options, and its step or tolerances."""
    return [word for word in (method(meta), *_steps(meta)) if word]


def method(meta: Mapping[str, Any]) -> str:
    """Name of the method, or its class if it has no name, with its options."""
    integrator = meta.get("integrator")
    if not isinstance(integrator, Mapping):
        return str(integrator or "")
    options = integrator.get("options") or {}
    text = ", ".join(f"{key.replace('_', ' ')} = {_short(value)}" for key, value in options.items())
    name = str(integrator.get("name") or integrator.get("class") or "")
    return f"{name} ({text})" if text else name


def _steps(meta: Mapping[str, Any]) -> Iterator[str]:
    for key in ("h", "rtol", "atol"):
        if meta.get(key) is not None:
            yield f"{key} = {meta[key]:.6g}"


def facts(solution: Run) -> list[tuple[str, str]]:
    """Counts, times in seconds and parameters of a run."""
    meta, stats = solution.meta, solution.stats
    counts = ("steps", "rejected", "evaluations", "newton_iterations", "t_reached")
    rows = [(key.replace("_", " "), _short(stats[key])) for key in counts if stats.get(key)]
    rows += [(key.removesuffix("_s").replace("_", " "), f"{stats[key]:.3g} s") for key in TIMES if stats.get(key)]
    parameters = meta.get("parameters", {})
    return rows + [(str(key), _short(value)) for key, value in parameters.items() if value not in _NOTHING]


def facts_of_start(solution: Run) -> list[tuple[str, str]]:
    """Sizes of a pose, coordinates of its joints, energies and residuals, and parameters."""
    names = solution.meta.get("names", {})
    rows = [("bodies", str(len(names["bodies"])))] if names.get("bodies") else []
    positions = np.ravel(solution.outputs.get("joint_positions", ()))
    if 0 < len(positions) <= _MOST_COORDINATES:
        for joint, description in names.get("joints", {}).items():
            places = description["coordinates"].items()
            rows += [(f"{joint}.{name}", _short(float(positions[k]))) for name, k in places]
    for part in (solution.invariants, solution.residuals):
        scalars = ((name, np.asarray(value)) for name, value in part.items() if not isinstance(value, Mapping))
        rows += [(name.replace("_", " "), _short(float(x.reshape(())))) for name, x in scalars if x.size == 1]
    return [*rows, *(each for each in facts(solution) if each[0] in solution.meta.get("parameters", {}))]


def _short(value: Any) -> str:
    text = f"{value:.6g}" if isinstance(value, float) else json.dumps(to_plain(value), ensure_ascii=False).strip('"')
    return text if len(text) <= _LONGEST else text[: _LONGEST - 3] + "…"
