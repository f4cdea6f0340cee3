"""Tables of a run: columns by readable names."""

from __future__ import annotations

import fnmatch
import functools
import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode import checks
from polhode.name_errors import unknown_name
from polhode.results.declarations import QUANTITIES
from polhode.results.quantity import AbstractNamedResults, declarations, model_names
from polhode.units import unit_of

if TYPE_CHECKING:
    from polhode.results.protocols import Run

ColumnReader = Callable[[], Any]

_VECTOR = ("x", "y", "z")
_QUATERNION = ("w", "x", "y", "z")


def select_columns(run: Run, columns: str | Sequence[str] | None = None) -> dict[str, np.ndarray]:
    """Columns of a run by name, each of shape (n,), `time` first.

    **Arguments:**

    - `columns`: names in the order in which they are wanted: "crank.angle", all of a body, joint or output by its name
      alone, "crank", or patterns such as "*.power" and "state.*". By default everything but the state, which outputs
      say in physical terms.

    **Raises** `UnknownName`, with near names, for a name that fits nothing, and for what was not saved.
    """
    readers = _columns(run)
    if columns is None:
        names = [name for name in readers if not name.startswith("state.")]
    else:
        patterns = [columns] if isinstance(columns, str) else checks.as_list("columns", columns, "names of columns")
        names = list(dict.fromkeys(("time", *(name for each in patterns for name in _match(run, readers, each)))))
    return {name: np.asarray(readers[name]()) for name in names}


def column_units(run: Run) -> dict[str, str]:
    """Units of the columns of bodies, joints, forces and contacts, of those that are known, and that of `time`."""
    units = model_names(run).get("units")
    kinds = {"time": "time"}
    for thing in _things(run):
        for each in declarations(type(thing)):
            if each.column is not None and each.applies(thing):
                for label in thing._labels(each.over) if each.over else ("",):
                    names = (f"{thing.name}.{column}" for column, _ in each.columns(thing, label))
                    kinds |= dict.fromkeys(names, each.kind_of(thing, label))
    return {name: symbol for name, kind in kinds.items() if (symbol := unit_of(kind, units))}


def _match(run: Run, readers: Mapping[str, ColumnReader], pattern: Any) -> list[str]:
    inside = _fitting_names(readers, pattern)
    if not inside:
        # Reading a quantity that was not saved raises the error with the remedy.
        every = _named_columns(run, readable=True)
        for name in _fitting_names(every, pattern):
            every[name]()
        _read_quantity(run, pattern)
        raise unknown_name("column", pattern, readers)
    return inside


def _read_quantity(run: Run, pattern: Any) -> None:
    """Reads "motor.torque" as an attribute, since loads have more names than columns."""
    name, _, quantity = pattern.rpartition(".") if isinstance(pattern, str) else ("", "", "")
    for group in (run.forces, run.joints, run.contacts):
        if name in group and quantity in dir(group[name]):
            getattr(group[name], quantity)


def _fitting_names(readers: Mapping[str, ColumnReader], pattern: Any) -> list[str]:
    if pattern in readers:
        return [pattern]
    inside = [name for name in readers if isinstance(pattern, str) and name.startswith(f"{pattern}.")]
    return inside or (fnmatch.filter(readers, pattern) if isinstance(pattern, str) else [])


def _columns(run: Run) -> dict[str, ColumnReader]:
    """Readers of all columns by name, called when a column is used."""
    if np.ndim(run.t) != 1:
        raise ValueError("A batch of runs has no columns; take one of them: jax.tree.map(lambda x: x[k], run).")
    readers: dict[str, ColumnReader] = {"time": lambda: run.t}
    named_readers = _named_columns(run, _can_read(run))
    for name, reader in (*named_readers.items(), *_of_frames(run, bool(named_readers))):
        # On a collision of names the section stays in front.
        readers.setdefault(name, reader)
    return readers


def _named_columns(run: Run, readable: bool) -> dict[str, ColumnReader]:
    """Columns of forces, bodies, joints and contacts that were saved; of all of them where states are `readable`."""
    return dict(column for thing in _things(run) for column in _of_thing(thing, readable))


def _things(run: Run) -> Iterator[AbstractNamedResults]:
    """Forces, bodies, joints and contacts, in the order of their columns."""
    for things in (run.forces, run.bodies, run.joints, run.contacts):
        yield from things.values()


def _of_thing(thing: AbstractNamedResults, readable: bool) -> Iterator[tuple[str, ColumnReader]]:
    """Columns of a body, joint or force: what has a value for each of its labels stands together, scalars come last."""
    quantities = [each for each in declarations(type(thing)) if each.column is not None and each.applies(thing)]
    quantities.sort(key=lambda each: not (each.over or each.components))
    for (_, over), alike in itertools.groupby(quantities, key=lambda each: (each.computation, each.over)):
        there = [each for each in alike if readable or each.is_readable(thing)]
        for label in thing._labels(over) if over else ("",):
            for each in there:
                for column, reader in each.columns(thing, label):
                    yield f"{thing.name}.{column}", reader


def _can_read(run: Run) -> bool:
    """Whether quantities that were not saved can be computed from the states."""
    return run.reader is not None and run.reader.obstacle is None


def _of_frames(run: Run, by_name: bool) -> Iterator[tuple[str, ColumnReader]]:
    """Columns of all saved arrays; outputs and invariants without their section, unless that is ambiguous."""
    leaves = run.columns()
    named = (array for each in QUANTITIES if each.column is not None for array in each.arrays)
    skipped_outputs = {array.split(".")[0] for array in named} if by_name else ()
    outputs = {name.removeprefix("outputs.").split(".")[0] for name in leaves if name.startswith("outputs.")}
    for name, values in leaves.items():
        section, _, rest = name.partition(".")
        if name == "time" or (section == "outputs" and rest.split(".")[0] in skipped_outputs):
            continue
        bare = section == "outputs" or (section == "invariants" and rest.split(".")[0] not in outputs)
        label = rest if bare else name
        shape = values.shape[1:]
        if name == "multipliers" and shape:
            # Those of contacts, which come last, are columns by name.
            contacts = model_names(run).get("contacts")
            shape = shape if contacts is None else (len(contacts["joints"]),)
        for index in np.ndindex(shape):
            parts = _spelt(values.shape[1:], index, rest)
            yield ".".join((label, *parts)), functools.partial(_entry, values, index)


def _entry(values: Any, index: tuple[int, ...]) -> np.ndarray:
    return np.asarray(values)[(slice(None), *index)]


def _spelt(shape: tuple[int, ...], index: tuple[int, ...], name: str) -> list[str]:
    """Readable indices: x, y, z of vectors, xy of matrices, w, x, y, z of quaternions."""
    numbers = list(map(str, index))
    if shape[-2:] == (3, 3) and "rotation" in name:
        return [*numbers[:-2], _VECTOR[index[-2]] + _VECTOR[index[-1]]]
    if shape[-1:] == (3,) and not name.startswith("coordinates"):
        return [*numbers[:-1], _VECTOR[index[-1]]]
    if shape[-1:] == (4,) and "quaternion" in name:
        return [*numbers[:-1], _QUATERNION[index[-1]]]
    return numbers
