"""Stores of runs on disk: zarr arrays with digests, which other processes can read during a run.

In: frames, metadata and checkpoints. Out: the same bytes, or a `StoreError` that names the damage. Open first:
`store.py` (what is written when), then `stored_frames.py`.
"""

from polhode.storage.errors import StoreError as StoreError
from polhode.storage.store import RunStore as RunStore
