"""Runs on disk and in other people's formats."""

from polhode.runs.errors import StoreError as StoreError
from polhode.runs.export import export as export
from polhode.runs.reading import load as load
from polhode.runs.store import RunStore as RunStore
