"""Runs on disk and in other formats."""

from polhode.runs.export import export as export
from polhode.runs.store import RunStore as RunStore
from polhode.runs.store import StoreError as StoreError
from polhode.runs.store import load as load
