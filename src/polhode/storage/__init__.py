"""Runs on disk, and in the formats of other programs.

In: frames while a run goes on, or a solution. Out: zarr stores with digests, which other processes read meanwhile.
Open first: `store.py` (what is written when), then `load.py`. `export.py` has tables, figures and the rest.
"""

from polhode.storage.errors import StoreError as StoreError
from polhode.storage.export import export as export
from polhode.storage.load import load as load
from polhode.storage.store import RunStore as RunStore
