"""Series for charts of a run: every quantity that a reader may choose, as plain series with names and units."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode.results.bodies import BodyResults
from polhode.results.contacts import ContactResults
from polhode.results.quantity import declarations
from polhode.storage import frame_layout
from polhode.viewing import unit_labels
from polhode.viewing.charts import quantity_series

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_MOST_CURVES = 6
"""Largest number of curves in a chart; the nine entries of a rotation matrix are not readable on one axis."""
_MOST_CONTACTS = 64
"""Largest number of contacts whose quantities a reader may choose."""
_AXES = {3: ("x", "y", "z"), 4: ("w", "x", "y", "z")}
_ROWS = {array for quantity in declarations(BodyResults) for array in quantity.arrays}
"""Outputs with a row for each body that a run shows."""


@dataclasses.dataclass(frozen=True)
class Chart:
    """One chart: a time axis and curves by name.

    - `t`: (n,); `curves`: name → (n,).
    - `group`: "Bodies", "Joints", "Contacts", "Outputs", "Checks", "Forces" or "State".
    - `log`: whether the values are magnitudes for a logarithmic axis; zeros are left out.
    - `unit`: of the values, and `time`: of the times; empty if unknown.
    - `first`: whether it is shown initially.
    """

    title: str
    t: np.ndarray
    curves: dict[str, np.ndarray]
    log: bool = False
    group: str = "Outputs"
    unit: str = ""
    time: str = ""
    first: bool = True


def charts(solution: Run) -> list[Chart]:
    """The charts of a run at a glance: outputs of few components, then drifts, residuals, steps, multipliers."""
    return [chart for chart in catalogue(solution) if chart.first]


def catalogue(solution: Run) -> list[Chart]:
    """All quantities of a run that a chart can show, those of a glance first."""
    t = np.asarray(solution.t, dtype=float)
    _, leaves = frame_layout.flatten(solution.frames)
    meta = solution.meta
    time = unit_labels.time(meta)
    groups: dict[str, Mapping[str, Any]] = {
        "Joints": solution.joints,
        "Contacts": _contacts_with_force(solution.contacts),
        "Forces": solution.forces,
        "Bodies": solution.bodies,
    }
    by_name = [list(_quantity_charts(things, group, t, meta)) for group, things in groups.items()]
    by_joint, by_contact, by_force, by_body = by_name
    # These are shown by the names of joints, contacts, forces and bodies already.
    pairs = zip(by_name, groups.values(), strict=True)
    named_outputs = {name for charts, things in pairs if charts for name in quantity_series.outputs(things)}
    outputs = {
        name: x for name, x in leaves.items() if name.startswith("outputs.") and name.split(".")[1] not in named_outputs
    }
    at_once = [chart for charts in (by_joint, by_contact) for chart in [c for c in charts if c.first][:_MOST_CURVES]]
    entries = list(at_once)
    entries += [chart for name, x in outputs.items() for chart in _glance(name, t, x, meta)]
    entries += _checks(t, leaves, meta)
    entries += [
        dataclasses.replace(chart, first=False)
        for chart in (*by_joint, *by_contact)
        if chart.title not in _titles(at_once)
    ]
    entries += by_force
    entries += [chart for name, x in outputs.items() for chart in _rows(name, t, x, meta)]
    entries += by_body
    entries += [
        Chart(f"State {_title(name)}", t, _components(x), group="State", first=False)
        for name, x in leaves.items()
        if name.startswith("state.") and 0 < _width(x) <= _MOST_CURVES
    ]
    return [
        dataclasses.replace(chart, time=time, unit=chart.unit or unit_labels.of(chart.title, meta)) for chart in entries
    ]


def _quantity_charts(things: Mapping[str, Any], group: str, t: np.ndarray, meta: Mapping[str, Any]) -> Iterable[Chart]:
    """Charts of quantities of joints, contacts, forces or bodies."""
    for of, name, values, kind, first in quantity_series.series(things):
        unit = unit_labels.of_kind(kind, meta)
        yield Chart(f"{of} · {name}", t, _components(values), group=group, unit=unit, first=first)


def _contacts_with_force(contacts: Mapping[str, Any]) -> dict[str, Any]:
    """Contacts that carry a force at some time, of many those with the largest ones; stops are all shown."""
    sizes = {
        name: np.max(np.abs(quantity_series.get_or_empty(contact, "normal_force")), initial=0.0)
        for name, contact in contacts.items()
        if isinstance(contact, ContactResults)
    }
    shown = sorted((name for name, size in sizes.items() if size > 0), key=lambda name: -sizes[name])[:_MOST_CONTACTS]
    return {name: contact for name, contact in contacts.items() if name not in sizes or name in shown}


def _titles(charts: Iterable[Chart]) -> set[str]:
    return {chart.title for chart in charts}


def _checks(t: np.ndarray, leaves: Mapping[str, np.ndarray], meta: Mapping[str, Any]) -> Iterable[Chart]:
    real = {name: np.asarray(x, dtype=float).reshape(len(t), -1) for name, x in leaves.items() if name != "time"}
    drifts = {_title(name): _largest(x - x[:1]) for name, x in real.items() if name.startswith("invariants.")}
    residuals = {_title(name): _largest(x) for name, x in real.items() if name.startswith("residuals.")}
    if drifts:
        yield Chart("Drift of invariants", t, drifts, log=True, group="Checks")
    if residuals:
        yield Chart("Residuals", t, residuals, log=True, group="Checks")
    if "rtol" in meta and len(t) > 2:
        unit = unit_labels.time(meta)
        yield Chart("Time between saved frames", t[1:], {"step": np.diff(t)}, log=True, group="Checks", unit=unit)
    for name, x in real.items():
        if name.startswith("invariants.") and x.shape[1] <= _MOST_CURVES:
            yield Chart(_capital(_title(name)), t, _components(leaves[name]), group="Checks", first=False)
    multipliers = real.get("multipliers")
    if multipliers is not None and multipliers.shape[1]:
        few = multipliers.shape[1] <= _MOST_CURVES
        if few:
            curves = {f"λ{_sub(i)}": column for i, column in enumerate(multipliers.T)}
            yield Chart("Multipliers", t, curves, group="Forces")
        else:
            for i, column in enumerate(multipliers.T):
                yield Chart(f"Multiplier {i + 1}", t, {f"λ{_sub(i)}": column}, group="Forces", first=False)


def _glance(name: str, t: np.ndarray, values: np.ndarray, meta: Mapping[str, Any]) -> Iterable[Chart]:
    count = values.shape[1] if values.ndim == 3 else 1
    if count * values.shape[-1] > _MOST_CURVES and values.shape[2:] == (3,) and not name.endswith("rotation"):
        # Of many points the last one, such as the end of a chain, is shown.
        bodies = row_names(meta, count) if name.split(".")[-1] in _ROWS else {}
        last = f"{_singular(_title(name))} of {bodies[count - 1]}" if count - 1 in bodies else ""
        yield Chart(last or f"{_title(name)}, last of {count}", t, _components(values[:, -1]))
    elif 0 < _width(values) <= _MOST_CURVES:
        bodies = row_names(meta, count) if name.split(".")[-1] in _ROWS else {}
        yield Chart(_title(name), t, _components(values, bodies))


def _rows(name: str, t: np.ndarray, values: np.ndarray, meta: Mapping[str, Any]) -> Iterable[Chart]:
    """Each body, node, joint or edge of an output by itself."""
    if values.ndim < 3 or (values.ndim == 3 and name.endswith("rotation")):
        return
    names = row_names(meta, values.shape[1]) if name.split(".")[-1] in _ROWS else {}
    group = "Bodies" if names else "Outputs"
    for i in range(values.shape[1]):
        if _width(values[:, i]) > 9:
            continue
        title = f"{names[i]} · {_singular(_title(name))}" if i in names else f"{_title(name)} {i}"
        yield Chart(title, t, _components(values[:, i]), group=group, first=False)


def row_names(meta: Mapping[str, Any], count: int) -> dict[int, str]:
    """Row of the outputs of bodies → name of the body, where the run has it."""
    bodies = meta.get("names", {}).get("bodies")
    if bodies:
        return dict(enumerate(bodies[:count]))
    scene = meta.get("scene") or {}
    names = {body["row"]: str(body["name"]) for body in scene.get("bodies", ())}
    for line in scene.get("lines", ()):
        if "edges" in line:
            names |= {row: f"{line['name']}, node {k}" for k, row in enumerate(line["rows"])}
    for cloud in scene.get("clouds", ()):
        if "output" not in cloud:
            names |= {row: f"particle {k}" for k, row in enumerate(cloud["rows"])}
    return {row: name for row, name in names.items() if 0 <= row < count}


def _components(values: np.ndarray, rows: Mapping[int, str] | None = None) -> dict[str, np.ndarray]:
    """Curves by name; `rows` has names of bodies for the first of two axes."""
    shape = values.shape[1:]
    if shape == ():
        return {"": values.astype(float)}
    names = [_label(index, shape) for index in np.ndindex(shape)]
    if rows and len(shape) == 2 and shape[1] in _AXES:
        names = [f"{rows.get(i, i + 1)} {_AXES[shape[1]][j]}" for i, j in np.ndindex(shape)]
    return dict(zip(names, values.reshape(len(values), -1).T.astype(float), strict=True))


def _label(index: tuple[int, ...], shape: tuple[int, ...]) -> str:
    """Label of a component: x, 2x for the x of the second row, ₂₃ of a matrix, numbers from one."""
    if len(shape) == 1:
        return _AXES[shape[0]][index[0]] if shape[0] in _AXES else f"{index[0] + 1}"
    if shape[-1] in _AXES and shape[-2] != shape[-1]:
        return f"{'.'.join(str(i + 1) for i in index[:-1])}{_AXES[shape[-1]][index[-1]]}"
    return f"row {index[0] + 1}, column {index[1] + 1}" if len(shape) == 2 else " ".join(str(i + 1) for i in index)


def _largest(values: np.ndarray) -> np.ndarray:
    return np.max(np.abs(values), axis=1)


def _width(values: np.ndarray) -> int:
    return int(np.prod(values.shape[1:]))


def _sub(number: int) -> str:
    return str(number + 1).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))


def _singular(plural: str) -> str:
    """The title for one row of an output of all bodies: "positions" → "position"."""
    return f"{plural.removesuffix('ies')}y" if plural.endswith("ies") else plural.removesuffix("s")


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]


def _title(name: str) -> str:
    return name.split(".", 1)[-1].replace("_", " ").replace(".", " · ")
