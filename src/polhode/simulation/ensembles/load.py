"""Stores of ensembles read as data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polhode import checks
from polhode.simulation.ensembles.store import EnsembleStore
from polhode.storage.documents import ENSEMBLE
from polhode.storage.errors import DamageError, StoreError, translate_os_errors
from polhode.storage.zarr_arrays import ArrayFiles

if TYPE_CHECKING:
    import xarray

_MAX_REPORTED = 5


def load_ensemble(path: str | Path, *, salvage: bool = False) -> xarray.Dataset:
    """The data set of the ensemble stored at a path, whole or as far as it came; members not run have result -1.

    All checksums are compared; arrays are read from disk on access.

    **Arguments:**

    - `path`: of a store.
    - `salvage`: read the members that are whole instead of refusing a damaged store: others count as not run, and the
      attribute `damage` says what is damaged.

    **Raises** `StoreError` where it is no ensemble, or is damaged; it names the files.
    """
    place = checks.path("path", path)
    checks.flag("salvage", salvage)
    problems: list[str] = []
    try:
        store = EnsembleStore.open(place)
    except StoreError as error:
        if not salvage or not (place / ENSEMBLE.copy).is_file():
            raise
        problems.append(str(error))
        store = EnsembleStore.open(place, ENSEMBLE.copy)
    while True:
        dataset, damage = _read(store)
        if not damage or salvage:
            return dataset.assign_attrs(damage="; ".join([*problems, *damage])) if problems or damage else dataset
        again = EnsembleStore.open(place)
        # A running sweep has replaced the root in between.
        if again == store:
            more = f", and {len(damage) - _MAX_REPORTED} more" if len(damage) > _MAX_REPORTED else ""
            raise ENSEMBLE.damage_error(place, "; ".join(damage[:_MAX_REPORTED]) + more)
        store = again


def dataset_of(store: EnsembleStore) -> xarray.Dataset:
    """The data set of a store that was just written, whose frames are compared with their checksums once they are read.

    Raises StoreError for a damaged one.
    """
    dataset, damage = _read(store, compare=False)
    if damage:
        raise ENSEMBLE.damage_error(store.path, damage[0])
    return dataset


def _read(store: EnsembleStore, compare: bool = True) -> tuple[xarray.Dataset, list[str]]:
    """The data set of what is whole in a store, and what is not."""
    import xarray

    from polhode.simulation.ensembles.stored_arrays import lazy

    with translate_os_errors(store.path):
        batches, damage = store.whole_batches(compare)
        constants, more = store.constants()
        damage += [*more, *store.odd_metadata()]
    attributes = store.attributes
    variables: dict[str, Any] = {}
    for name, files in store.members.items():
        rows = MemberRows(store, name, {number: each[name] for number, each in batches.items()})
        variables[name] = (files.dimensions, lazy(rows), attributes["units"].get(name, {}))
    try:
        dataset = xarray.Dataset({**variables, **constants})
        dataset = dataset.set_coords([name for name in attributes["coordinates"].split() if name in dataset])
    except ValueError as error:
        raise ENSEMBLE.damage_error(store.path, f"its arrays don't fit together ({error})") from None
    return dataset.assign_attrs({name: attributes[name] for name in ("title", "stats") if name in attributes}), damage


class MemberRows(NamedTuple):
    """One array of an ensemble, to be read row by row.

    - `store`, `name`: the array. - `batches`: its files, by number, of the batches that were run.
    """

    store: EnsembleStore
    name: str
    batches: dict[int, ArrayFiles]

    @property
    def shape(self) -> tuple[int, ...]:
        """Of the array."""
        return (self.store.count, *self.store.members[self.name].shape)

    @property
    def dtype(self) -> np.dtype:
        """Of the array."""
        return self.store.members[self.name].dtype

    def read(self, start: int, stop: int) -> np.ndarray:
        """Some rows; those of members that were not run have the values of empty ones.

        Raises StoreError where the store was damaged, removed or replaced since it was opened.
        """
        files, path = self.store.members[self.name], self.store.path
        rows = np.full((stop - start, *files.shape), files.empty, files.dtype)
        with translate_os_errors(path):
            for number in range(start // files.rows, -(-stop // files.rows)):
                low = max(start, number * files.rows)
                high = min(stop, (number + 1) * files.rows)
                if number in self.batches:
                    try:
                        rows[low - start : high - start] = self.batches[number].read(low, high)
                    except DamageError as error:
                        raise ENSEMBLE.damage_error(path, f"`{self.name}`: {error}") from None
        return rows
