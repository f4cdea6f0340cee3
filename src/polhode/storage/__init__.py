"""Stores of runs on disk, zarr folders and HDF5 files, with digests; other processes can read them during a run.

In: frames, metadata and checkpoints. Out: the same bytes, or a `StoreError` that names the damage. Open first:
`store.py` (`AbstractRunStore`: what is written when), then `store_choice.py` (which store a path has), `zarr_store.py`
and `hdf5_store.py`; `stored_frames.py` reads.
"""

from polhode.storage.errors import StoreError as StoreError
from polhode.storage.store import AbstractRunStore as AbstractRunStore
from polhode.storage.zarr_store import RunStore as RunStore
