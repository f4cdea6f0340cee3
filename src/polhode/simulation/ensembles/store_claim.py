"""Claims of the path of an ensemble store for one sweep, with a new store or the existing one."""

from __future__ import annotations

import contextlib
from collections.abc import Generator
from pathlib import Path

from polhode.simulation.ensembles.labels import Labels
from polhode.simulation.ensembles.store import EnsembleStore
from polhode.storage.documents import ENSEMBLE, FILE
from polhode.storage.errors import OccupiedError, StoreError, translate_os_errors
from polhode.storage.paths import acquire_lock, check_room, is_free, resolve
from polhode.storage.store_choice import is_hdf5


@contextlib.contextmanager
def claim(out: str | Path | None, resume: bool, overwrite: bool) -> Generator[Path | None]:
    """The locked path of a store; None without one.

    Raises StoreError where somebody else writes there, or something is there that stays.
    """
    if out is None:
        yield None
        return
    if is_hdf5(out):
        raise ValueError(f"`out` is `{out}`, but ensembles are written as zarr stores only; choose a name with .zarr.")
    path = resolve(out)
    lock = acquire_lock(path, "")
    try:
        if not resume or is_free(path):
            with translate_os_errors(path):
                check_room(path, ENSEMBLE, overwrite, "go on with it by `resume=True`, or pass `overwrite=True`")
        yield path
    finally:
        lock.release()


def create_or_open(new_store: EnsembleStore, resume: bool, labels: Labels) -> EnsembleStore:
    """Creates the store, or opens the existing one to resume it.

    The path is claimed. Raises StoreError where the one that is there can't be read, or is of another ensemble.
    """
    path = new_store.path
    if not resume or is_free(path):
        return new_store.begin(labels)
    ensemble, errors = new_store.attributes["ensemble"], []
    for file in (FILE, ENSEMBLE.copy):
        try:
            store = EnsembleStore.open(path, file, ensemble=ensemble)
        except StoreError as error:
            errors.append(error)
            continue
        if store.attributes["ensemble"] == ensemble and store.members == new_store.members:
            return store.go_on(labels)
        errors.append(
            OccupiedError(
                f"The store `{path}` is of another ensemble, or of another version of polhode. Give that one, or "
                "another path."
            )
        )
    raise errors[0]
