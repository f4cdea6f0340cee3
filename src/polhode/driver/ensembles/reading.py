"""Stores of ensembles read as data sets."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from polhode import checks
from polhode.driver.ensembles.store import EnsembleStore
from polhode.runs.errors import explaining

if TYPE_CHECKING:
    import xarray


def load_ensemble(path: str | Path) -> xarray.Dataset:
    """The data set of the ensemble stored at a path, whole or as far as it came; members not run have result -1.

    All checksums are compared; arrays are read from disk as they are looked at.

    **Raises** `StoreError` where it is no ensemble, or is damaged; it names the files.
    """
    place = checks.path("path", path)
    with explaining(place):
        store = EnsembleStore.opened(place)
        store.check()
    return opened(store)


def opened(store: EnsembleStore) -> xarray.Dataset:
    """The data set of a store."""
    import xarray

    known = store.attributes
    found = xarray.open_zarr(store.path, consolidated=False, chunks=None)
    found = found.assign_coords({name: ((name,), values) for name, values in known["words"].items()})
    for name, units in known["units"].items():
        if name in found:
            found[name].attrs.update(units)
    told = {name: known[name] for name in ("title", "stats") if name in known}
    return (
        found.set_coords([name for name in known["coordinates"] if name in found])
        .drop_attrs(deep=False)
        .assign_attrs(told)
    )
