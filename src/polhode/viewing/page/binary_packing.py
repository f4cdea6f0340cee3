"""Packing of arrays into one block of bytes, which pages read."""

from __future__ import annotations

from typing import Any

import numpy as np


class PackedArrays:
    """A growing block of bytes; places are in bytes, and multiples of four."""

    def __init__(self) -> None:
        self._parts: list[bytes] = []
        self._length = 0

    def floats(self, values: Any) -> list[int]:
        """Adds float32 numbers and returns [place, count]."""
        # Values beyond single precision (of a run that blew up) become infinite, which charts leave out.
        with np.errstate(over="ignore"):
            part = np.asarray(values, dtype="<f4").ravel()
        return [self._add(part.tobytes()), part.size]

    def points(self, values: np.ndarray) -> dict[str, Any]:
        """Adds points (…, 3) in 16 bits a coordinate; returns `place`, `count` and their box, `low` and `span`."""
        flat = values.reshape(-1, 3)
        low = flat.min(axis=0)
        span = np.maximum(flat.max(axis=0) - low, 1e-30)
        whole = np.rint((flat - low) / span * 65535).astype("<u2")
        return {"place": self._add(whole.tobytes()), "count": whole.size, "low": low, "span": span}

    def to_bytes(self) -> bytes:
        """The whole block."""
        return b"".join(self._parts)

    def _add(self, part: bytes) -> int:
        place = self._length
        part += b"\0" * (-len(part) % 4)
        self._parts.append(part)
        self._length += len(part)
        return place
