"""Choice of the store of a path by its suffix; the only module that knows all kinds of stores."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from polhode.storage.store import AbstractRunStore
from polhode.storage.zarr_store import RunStore

HDF5_SUFFIXES = (".h5", ".hdf5")
"""Suffixes of HDF5 files; every other path is that of a zarr store."""


def store_class(path: Any) -> type[AbstractRunStore[Any]]:
    """The class of the store at `path`, of which symbolic links are followed. The class refuses what is no path."""
    if is_hdf5(path):
        from polhode.storage.hdf5_store import HDF5Store

        return HDF5Store
    return RunStore


def is_hdf5(path: Any) -> bool:
    """Whether a path is that of an HDF5 file."""
    try:
        return Path(os.path.realpath(path)).suffix.lower() in HDF5_SUFFIXES
    except (OSError, ValueError, TypeError):
        return False


def is_run(path: Any) -> bool:
    """Whether there is a run of polhode at `path`, of any version and in any state."""
    return store_class(path).is_run(path)
