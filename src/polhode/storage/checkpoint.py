"""The checkpoint of a method, as stores have it: arrays in NumPy's format npz, and facts as JSON among them."""

from __future__ import annotations

import io
import json
from typing import Any, NamedTuple

import numpy as np

from polhode.storage.errors import StoreError


class Checkpoint(NamedTuple):
    """The state of a method after the last frame of a store: arrays by name, and facts as plain values."""

    arrays: dict[str, np.ndarray]
    facts: dict[str, Any]

    def to_bytes(self) -> bytes:
        """The content of a file with it."""
        buffer = io.BytesIO()
        facts = np.frombuffer(json.dumps(self.facts).encode(), np.uint8)
        arrays: dict[str, Any] = {"facts": facts, **self.arrays}
        np.savez(buffer, **arrays)
        return buffer.getvalue()


def unpack(data: bytes) -> dict[str, Any]:
    """The checkpoint in such a file: arrays by name, and "facts"."""
    with np.load(io.BytesIO(data), allow_pickle=False) as file:
        arrays = {name: file[name] for name in file.files}
    return {**arrays, "facts": json.loads(arrays["facts"].tobytes())}


def absence_error(path: Any) -> StoreError:
    """The error for a run without a checkpoint."""
    return StoreError(
        f"The run `{path}` has no checkpoint, so it can't be gone on with: it was written by "
        "`solution.save`, or cut off before its first step."
    )


def damage_error(path: Any, what: str) -> StoreError:
    """The error for a run with a damaged checkpoint."""
    return StoreError(
        f"The run `{path}` can't be gone on with as it was: its checkpoint {what}. Its frames are not "
        "concerned: `polhode.simulate(…, initial=polhode.load(path))` begins anew in the last one."
    )
