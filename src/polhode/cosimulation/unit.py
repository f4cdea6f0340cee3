"""Functional mock-up units of other programs."""

from __future__ import annotations

import dataclasses
import zipfile
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from polhode import checks
from polhode.checks import short_repr
from polhode.name_errors import unknown_name

KINDS = ("co-simulation", "model exchange")
"""Who makes the steps of a unit: the unit itself, or CVODE of FMPy."""

_REALS = frozenset(("Real", "Float64"))


@dataclasses.dataclass(frozen=True, eq=False)
class Unit:
    """A functional mock-up unit, FMI 2.0 or 3.0.

    - `name`: of its model. - `version`: of FMI. - `kind`: "co-simulation" or "model exchange".
    - `inputs`, `outputs`, `parameters`: shapes of the real variables, by name.
    - `start`: values that others than its own begin with. - `tolerance`: relative, of the solver for model exchange.
    """

    path: Path
    name: str
    version: str
    kind: str
    inputs: Mapping[str, tuple[int, ...]]
    outputs: Mapping[str, tuple[int, ...]]
    parameters: Mapping[str, tuple[int, ...]]
    start: Mapping[str, Any]
    tolerance: float
    description: Any = dataclasses.field(repr=False)


def load_fmu(
    path: str | Path, *, start: Mapping[str, Any] | None = None, kind: str | None = None, tolerance: float = 1e-6
) -> Unit:
    """Reads a functional mock-up unit, FMI 2.0 or 3.0, to be run beside a problem by `cosimulate`.

    FMPy runs it: `pip install 'polhode[fmu]'`. A unit is a program of its own: run only those that you trust.

    **Arguments:**

    - `path`: a file that ends in .fmu.
    - `start`: values of its parameters, and of other variables at the start, by name; its own by default.
    - `kind`: "co-simulation", where it brings its solver along, or "model exchange", where CVODE solves its equations;
      by default the first that it offers.
    - `tolerance`: relative tolerance of CVODE.

    **Raises** ValueError for files that are no such units, have no library for this platform, or no variable of a name
    in `start`, with close matches; FileNotFoundError; ImportError, with the command that helps, without FMPy.
    """
    path, fmpy = checks.path("path", path), require_fmpy()
    if not path.is_file():
        raise FileNotFoundError(f"There is no file `{path}`: give the path of a unit, which ends in .fmu.")
    description = _read(fmpy, path)
    if description.fmiVersion not in ("2.0", "3.0"):
        raise ValueError(f"`{path.name}` is of FMI {description.fmiVersion}; export it for FMI 2.0 or 3.0.")
    offers = [
        each for each, part in zip(KINDS, (description.coSimulation, description.modelExchange), strict=True) if part
    ]
    if not offers:
        raise ValueError(
            f"`{path.name}` is neither for co-simulation nor for model exchange; export it for one of both."
        )
    kind = offers[0] if kind is None else checks.choice("kind", kind, KINDS)
    if kind not in offers:
        raise ValueError(f"`{path.name}` is for {offers[0]} only: leave `kind` out.")
    _check_platform(fmpy, path)
    values = dict(start or {})
    names = [v.name for v in description.modelVariables]
    for name in values:
        if name not in names:
            raise unknown_name(f"variable of unit `{path.name}`", name, names)
    return Unit(
        path,
        str(description.modelName),
        str(description.fmiVersion),
        kind,
        _shapes(description, "input"),
        _shapes(description, "output"),
        _shapes(description, "parameter"),
        values,
        float(checks.positive("tolerance", tolerance, (), "of the solver")),
        description,
    )


def require_fmpy() -> Any:
    """The package FMPy. Raises ImportError, with the command that helps, if it is not installed."""
    try:
        import fmpy
    except ModuleNotFoundError as error:
        raise ImportError("Units of FMI are run by FMPy: pip install 'polhode[fmu]'", name="fmpy") from error
    return fmpy


def _read(fmpy: Any, path: Path) -> Any:
    """The description of a unit."""
    try:
        return fmpy.read_model_description(str(path), validate=False)
    except (zipfile.BadZipFile, KeyError, OSError) as error:
        raise ValueError(f"`{path.name}` is no unit of FMI: {error}.") from error
    except Exception as error:
        reason = next(iter(str(error).splitlines()), type(error).__name__)
        raise ValueError(f"The description of unit `{path.name}` can't be read: {reason}") from error


def _check_platform(fmpy: Any, path: Path) -> None:
    """Raises ValueError for units without a library for this platform."""
    with zipfile.ZipFile(path) as archive:
        names = [name.split("/") for name in archive.namelist()]
    binaries = sorted({name[1] for name in names if name[0] == "binaries" and len(name) == 3 and name[2]})
    # FMI 2.0 and 3.0 have other names for platforms.
    if {fmpy.platform, fmpy.platform_tuple} & set(binaries):
        return
    others = f"libraries for {', '.join(binaries)}" if binaries else "no library"
    has_sources = any(name[0] == "sources" and name[-1].endswith(".c") for name in names)
    remedy = f"It has sources: `fmpy compile {path.name}` makes one. Or export" if has_sources else "Export"
    raise ValueError(
        f"Unit `{path.name}` has {others}, and none for this platform, {fmpy.platform_tuple}. {remedy} it for this "
        "platform."
    )


def _shapes(description: Any, causality: str) -> dict[str, tuple[int, ...]]:
    """Shapes of the real variables of a causality."""
    every: Iterable[Any] = description.modelVariables
    return {v.name: _shape(v) for v in every if v.causality == causality and v.type in _REALS}


def _shape(variable: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in getattr(variable, "shape", None) or ())


def check_names(what: str, names: Any, find: Callable[[str], Any]) -> dict[str, str]:
    """A mapping of names to names, each of which `find` looks up or raises for.

    Raises ValueError for other values.
    """
    if not isinstance(names, Mapping):
        raise ValueError(f"`{what}` must be a dictionary of names, got {short_repr(names)}.")
    for key, value in names.items():
        checks.word(what, key, "name of what is set")
        checks.word(what, value, "name of what it is set to")
        find(value)
    return dict(names)


def flat(value: Any) -> list[float]:
    """The numbers of a value."""
    return np.ravel(np.asarray(value, float)).tolist()
