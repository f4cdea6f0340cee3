"""Measured motion: time series by name, and the corresponding outputs of runs."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.name_errors import unknown_name
from polhode.problem import Problem
from polhode.solution.solution import Solution

TIMES = ("time", "t")

Readout = Callable[[Solution], Array]


@dataclasses.dataclass(frozen=True, eq=False)
class Series:
    """A data set: instants `t` (n,), values, noise, masks of finite values and readers of runs by name."""

    t: Float[np.ndarray, " n"]
    values: dict[str, np.ndarray]
    sigma: dict[str, np.ndarray]
    masks: dict[str, np.ndarray]
    reads: dict[str, Readout]

    @property
    def end(self) -> float:
        """The last instant, at which runs end."""
        return float(self.t[-1])

    @property
    def count(self) -> int:
        """Number of measured values."""
        return sum(int(mask.sum()) for mask in self.masks.values())

    def residual(self, run: Solution) -> Array:
        """(measured - computed) / σ, flat."""
        parts = []
        for name, values in self.values.items():
            prediction = jnp.asarray(self.reads[name](run))
            at = np.flatnonzero(self.masks[name])
            parts.append(((values - prediction) / self.sigma[name]).ravel()[at])
        return jnp.concatenate(parts)

    def unpack(self, flat: np.ndarray) -> dict[str, np.ndarray]:
        """Flat residuals by name, in the units of the data."""
        result, first = {}, 0
        for name, values in self.values.items():
            out, mask = np.full(values.shape, np.nan), self.masks[name]
            number = int(mask.sum())
            out[mask] = flat[first : first + number]
            result[name] = out * self.sigma[name]
            first += number
        return result


def series_of(problem: Problem, data: Any, sigma: Any, *, missing: bool) -> Series:
    """Checks a data set against a problem. Raises ValueError."""
    columns = _columns(data)
    t, order = _times(problem, columns)
    values, sizes, masks, reads = {}, {}, {}, {}
    for name, column in columns.items():
        if name in TIMES:
            continue
        reads[name], shape = _reader(problem, name)
        each = checks.numbers(name, column, "measured")
        if each.shape != (len(t), *shape):
            raise ValueError(f"Data `{name}` must have shape {(len(t), *shape)}, one for each time, got {each.shape}.")
        each, mask = each[order], np.isfinite(each[order])
        if not missing and not mask.all():
            raise ValueError(
                f"Data `{name}` have {int((~mask).sum())} values that are not finite, the first at t = "
                f"{t[np.argwhere(~mask)[0][0]]:g}. Pass `missing=True` to leave NaN out."
            )
        if np.isinf(each).any():
            raise ValueError(f"Data `{name}` have infinite values; missing ones are NaN.")
        values[name], masks[name] = np.where(mask, each, 0.0), mask
        sizes[name] = _sigma(sigma, name)
    if not values:
        raise ValueError('`data` must have something measured beside "time".')
    return Series(t, values, sizes, masks, reads)


def _columns(data: Any) -> dict[str, Any]:
    if isinstance(data, str | Path):
        return _read_csv(Path(data))
    if isinstance(data, Mapping):
        return dict(data)
    if hasattr(data, "columns") and hasattr(data, "index"):
        return {str(name): np.asarray(data[name]) for name in data.columns}
    raise ValueError(
        f'`data` must map names to values, "time" among them, or be the path of a CSV file, got {type(data).__name__}.'
    )


def _read_csv(path: Path) -> dict[str, Any]:
    """The columns of a CSV file with names in its first line. Raises ValueError."""
    import pandas

    if not path.is_file():
        raise ValueError(f"`data` is `{path}`, where there is no file. Give the path of a CSV file, or a mapping.")
    try:
        frame = pandas.read_csv(path, skipinitialspace=True)
    except ValueError as error:
        raise ValueError(f"`{path.name}` isn't a CSV file with names in its first line: {error}.") from error
    for name in frame.columns:
        if not pandas.api.types.is_numeric_dtype(frame[name]):
            at, value = next((k, x) for k, x in enumerate(frame[name]) if not _is_number(x))
            raise ValueError(
                f"Column `{name}` of `{path.name}` has {value!r} in line {at + 2}, which is no number. Columns are "
                "separated by commas, their names are in the first line, and missing values are empty."
            )
    return {str(name).strip(): frame[name].to_numpy() for name in frame.columns}


def _is_number(value: Any) -> bool:
    try:
        float(value)
    except (TypeError, ValueError):
        return False
    return True


def _times(problem: Problem, columns: Mapping[str, Any]) -> tuple[np.ndarray, np.ndarray]:
    names = [name for name in TIMES if name in columns]
    if not names:
        raise ValueError(
            f'`data` must have the instants of its values as "time"; it has {", ".join(columns) or "nothing"}.'
        )
    t = checks.numbers("time", columns[names[0]], "instants of the data")
    if t.ndim != 1 or not len(t) or not np.isfinite(t).all():
        raise ValueError(f'"time" of the data must be a list of finite numbers, got shape {t.shape}.')
    order = np.argsort(t, kind="stable")
    t = t[order]
    if np.any(np.diff(t) <= 0):
        raise ValueError(
            f'"time" of the data has {t[np.flatnonzero(np.diff(t) <= 0)[0]]:g} twice; take means, or two data sets.'
        )
    start = problem.t_span[0]
    if t[0] < start or t[-1] <= start:
        raise ValueError(f"Data lie between t = {t[0]:g} and {t[-1]:g}, and the problem starts at {start:g}.")
    return t, order


def _sigma(sigma: Any, name: str) -> np.ndarray:
    if isinstance(sigma, Mapping) and name not in sigma:
        raise unknown_name("`sigma`", name, list(sigma))
    value = 1.0 if sigma is None else sigma[name] if isinstance(sigma, Mapping) else sigma
    deviation = checks.numbers("sigma", value, "standard deviation of the noise")
    if not (np.all(np.isfinite(deviation)) and np.all(deviation > 0)):
        raise ValueError(f"`sigma` must be positive and finite, got {checks.short_repr(value)}.")
    return deviation


def _reader(problem: Problem, name: str) -> tuple[Readout, tuple[int, ...]]:
    """The function that reads a quantity from a run, and the shape of one value."""
    if name in problem.outputs:
        shape = np.shape(problem.outputs[name](jnp.asarray(problem.t_span[0]), problem.state0))
        return (lambda run: run.outputs[name]), shape
    name_table = problem.named
    readouts: dict[str, Readout] = {}
    if name_table is not None:
        for joint, entry in name_table.metadata["joints"].items():
            several = len(entry["coordinates"]) > 1
            for label in entry["coordinates"]:
                readouts[f"{joint}.{label}"] = _joint(joint, label, rate=False)
                readouts[f"{joint}.{f'{label}_rate' if several else 'rate'}"] = _joint(joint, label, rate=True)
        for body in name_table.metadata["bodies"]:
            for k, axis in enumerate("xyz"):
                readouts[f"{body}.{axis}"] = _body(body, "position", k)
                readouts[f"{body}.v{axis}"] = _body(body, "velocity", k)
                readouts[f"{body}.omega_{axis}"] = _body(body, "angular_velocity", k)
    if name not in readouts:
        raise unknown_name("output, joint or body to measure", name, [*problem.outputs, *readouts])
    return readouts[name], ()


def _joint(joint: str, label: str, *, rate: bool) -> Readout:
    if rate:
        return lambda run: run.joints[joint].rates[label]
    return lambda run: run.joints[joint].coordinate(label)


def _body(body: str, quantity: str, k: int) -> Readout:
    return lambda run: getattr(run.bodies[body], quantity)[..., k]
