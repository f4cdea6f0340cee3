"""Series for charts of a run: outputs, drifts, residuals, step sizes as plain series."""

from __future__ import annotations

import dataclasses

import numpy as np

from polhode.runs import layout
from polhode.solution import Solution

# Nine entries of a rotation matrix on one axis tell nobody anything.
_MOST_CURVES = 6


@dataclasses.dataclass(frozen=True)
class Chart:
    """One chart: a time axis and curves by name.

    - `t`: (n,); `curves`: name → (n,).
    - `log`: whether the values are magnitudes for a logarithmic axis; zeros are left out.
    """

    title: str
    t: np.ndarray
    curves: dict[str, np.ndarray]
    log: bool = False


def charts(solution: Solution) -> list[Chart]:
    """The charts of a run: outputs of few enough components, then drifts, residuals, steps, multipliers."""
    t = np.asarray(solution.t, dtype=float)
    _, leaves = layout.flatten(solution.frames)
    real = {name: np.asarray(x, dtype=float).reshape(len(t), -1) for name, x in leaves.items() if name != "time"}
    found = [_output(name, t, x) for name, x in leaves.items() if name.startswith("outputs.")]
    found = [chart for chart in found if 0 < len(chart.curves) <= _MOST_CURVES]
    drifts = {_title(name): _largest(x - x[:1]) for name, x in real.items() if name.startswith("invariants.")}
    residuals = {_title(name): _largest(x) for name, x in real.items() if name.startswith("residuals.")}
    if drifts:
        found.append(Chart("Drift of invariants", t, drifts, log=True))
    if residuals:
        found.append(Chart("Residuals", t, residuals, log=True))
    if "rtol" in solution.meta and len(t) > 2:
        found.append(Chart("Time between saved frames", t[1:], {"step": np.diff(t)}, log=True))
    multipliers = real.get("multipliers")
    if multipliers is not None and 0 < multipliers.shape[1] <= _MOST_CURVES:
        found.append(Chart("Multipliers", t, {str(i): column for i, column in enumerate(multipliers.T)}))
    return found


def _output(name: str, t: np.ndarray, values: np.ndarray) -> Chart:
    count = values.shape[1] if values.ndim == 3 else 1
    if count * values.shape[-1] > _MOST_CURVES and values.shape[2:] == (3,) and not name.endswith("rotation"):
        # Of many points the last one, such as the end of a chain, stands for all.
        return Chart(f"{_title(name)}, last of {count}", t, _components(values[:, -1]))
    return Chart(_title(name), t, _components(values))


def _components(values: np.ndarray) -> dict[str, np.ndarray]:
    shape = values.shape[1:]
    if shape == ():
        return {"": values.astype(float)}
    names = ("x", "y", "z") if shape == (3,) else [",".join(map(str, index)) for index in np.ndindex(shape)]
    return dict(zip(names, values.reshape(len(values), -1).T.astype(float), strict=True))


def _largest(values: np.ndarray) -> np.ndarray:
    return np.max(np.abs(values), axis=1)


def _title(name: str) -> str:
    return name.split(".", 1)[-1].replace("_", " ").replace(".", " · ")
