"""Arrays that grow along their first axis, as files in the format of zarr, version 3.

Zarr's own library appends to one array after the other, in 1.3 ms each where this takes 0.2, and replaces metadata
before data; a run has some 25 arrays, is published several times a second and may be killed at any moment. So files are
written here: each chunk and each metadata file at once, by replacing it, with a checksum of its own. Any zarr library
reads them.
"""

from __future__ import annotations

import json
import math
import urllib.parse
from pathlib import Path
from typing import Any, NamedTuple

import google_crc32c
import numpy as np

from polhode.checks import short_repr
from polhode.storage.errors import DamageError
from polhode.storage.files import read_file, replace

_CHUNK_BYTES = 16 * 1024, 128 * 1024, 1024 * 1024
"""Size of a chunk: least, for an unknown number of rows, and largest."""
_CHUNKS = 8
"""Chunks of an array, within these sizes: each publication rewrites the last one."""
CHECKSUM_BYTES = 4
_LONGEST_NAME = 200
_UNSAFE = '/\\:*?"<>|%'


class ArrayFiles(NamedTuple):
    """Where one array is and how it is cut into chunks along its first axis.

    - `folder`: of the array. - `dtype`, `shape`: of one row. - `rows`: in a chunk. - `dimensions`: names of all axes.
    - `count`, `checksums`: published rows, and the concatenated checksums of the rows in each chunk, stored apart from
      the chunks; None where chunks can only be compared with their own checksums.
    - `fill`: value of rows without a chunk, for zarr; None for the default, NaN or zero.
    """

    folder: Path
    dtype: np.dtype
    shape: tuple[int, ...]
    rows: int
    dimensions: tuple[str, ...]
    count: int = 0
    checksums: bytes | None = None
    fill: int | None = None

    @classmethod
    def for_rows(
        cls, folder: Path, values: np.ndarray, dimensions: tuple[str, ...], expected_rows: int | None
    ) -> ArrayFiles:
        """Files for rows like those of `values`; `expected_rows` is their number, if that is known."""
        rows = chunk_rows(values.dtype.itemsize * math.prod(values.shape[1:]), expected_rows)
        return cls(folder, values.dtype.newbyteorder("<"), values.shape[1:], rows, dimensions)

    @classmethod
    def from_metadata(cls, folder: Path, metadata: dict[str, Any]) -> ArrayFiles:
        """Files as their metadata describe them. Raises DamageError where these make no sense."""
        try:
            shape = tuple(int(n) for n in metadata["shape"])
            chunk = tuple(int(n) for n in metadata["chunk_grid"]["configuration"]["chunk_shape"])
            dimensions = tuple(str(name) for name in metadata["dimension_names"])
            dtype = np.dtype(metadata["data_type"]).newbyteorder("<")
            fill = metadata["fill_value"]
            fill = int(fill) if dtype.kind in "iu" and fill != _fill(dtype) else None
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise DamageError(f"its metadata make no sense ({type(error).__name__}: {error})") from error
        if not shape or chunk[1:] != tuple(max(n, 1) for n in shape[1:]) or chunk[0] < 1 or min(shape) < 0:
            raise DamageError(f"its metadata make no sense: shape {shape}, chunks {chunk}")
        if dtype.hasobject or dtype.name != metadata["data_type"] or dtype.kind not in "biufc":
            raise DamageError(f"its metadata make no sense: numbers of type {short_repr(metadata['data_type'])}")
        files = cls(folder, dtype, shape[1:], chunk[0], dimensions, fill=fill)
        if files.metadata(shape[0]) != metadata:
            # Readers that know all of zarr would take other numbers from them, by a scale or another codec.
            raise DamageError("its metadata are none that polhode writes")
        return files

    @property
    def row_bytes(self) -> int:
        """Size of one row."""
        return self.dtype.itemsize * math.prod(self.shape)

    @property
    def empty(self) -> Any:
        """The value of rows without a chunk."""
        usual = np.nan if self.dtype.kind in "fc" else 0
        return usual if self.fill is None else self.fill

    def metadata(self, count: int) -> dict[str, Any]:
        """zarr's metadata of the array while it has `count` rows."""
        little = {"configuration": {"endian": "little"}} if self.dtype.itemsize > 1 else {}
        return {
            "zarr_format": 3,
            "node_type": "array",
            "shape": [count, *self.shape],
            "data_type": self.dtype.name,
            "chunk_grid": {
                "name": "regular",
                "configuration": {"chunk_shape": [self.rows, *(max(n, 1) for n in self.shape)]},
            },
            "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
            "fill_value": _fill(self.dtype) if self.fill is None else self.fill,
            "codecs": [{"name": "bytes", **little}, {"name": "crc32c"}],
            "attributes": {},
            "dimension_names": list(self.dimensions),
            "storage_transformers": [],
        }

    def chunk_path(self, number: int) -> Path:
        """The file of a chunk."""
        return self.folder.joinpath("c", str(number), *("0" * len(self.shape)))

    def chunks(self, count: int) -> int:
        """The number of files that `count` rows take."""
        return -(-count // self.rows) if self.row_bytes else 0

    def write(self, first: int, values: np.ndarray, token: str) -> bytes:
        """Replace the chunks that hold `values`, the first of which is row `first`, a multiple of `rows`.

        Returns a checksum of the rows in each, which stays valid when more rows are appended.
        """
        checksums = b""
        if self.row_bytes == 0:
            return checksums
        for at in range(0, len(values), self.rows):
            part = np.ascontiguousarray(values[at : at + self.rows], self.dtype)
            fill_rows = self.rows - len(part)
            padding = np.full((fill_rows, *self.shape), np.nan if self.dtype.kind in "fc" else 0, self.dtype)
            data, rest = _view(part), _view(padding)
            checksum = google_crc32c.value(data)
            whole = _bytes(google_crc32c.extend(checksum, rest))
            replace(self.chunk_path((first + at) // self.rows), (data.data, rest.data, whole), token)
            checksums += _bytes(checksum)
        return checksums

    def read(self, start: int, stop: int, room: int = 0) -> np.ndarray:
        """Rows from `start` to `stop`, then `room` uninitialised ones. Raises DamageError, which names the file."""
        if self.row_bytes == 0:
            return np.zeros((stop - start + room, *self.shape), self.dtype)
        if stop > start:
            # Before memory is allocated for as many rows as the metadata claim.
            self._check_size((stop - 1) // self.rows)
        rows = np.empty((stop - start + room, *self.shape), self.dtype)
        for number in range(start // self.rows, -(-stop // self.rows)):
            low = number * self.rows
            a, b = max(start, low), min(stop, low + self.rows)
            rows[a - start : b - start] = self._chunk(number)[a - low : b - low]
        return rows

    def intact(self, count: int) -> tuple[int, str]:
        """How many of `count` rows can be read, and what is wrong with the next one."""
        for number in range(self.chunks(count)):
            try:
                self._chunk(number)
            except (OSError, DamageError) as error:
                return number * self.rows, f"`{self.folder.name}`: {error}"
        return count, ""

    def odd_metadata(self, count: int | None = None) -> str:
        """Damage to the array's own metadata, which zarr uses; "" without any.

        Those of an array that grows have the number of rows of some earlier moment, and no `count` is given.
        """
        name = f"`{self.folder.name}/zarr.json`"
        try:
            data = read_file(self.folder / "zarr.json")
            rows = int(json.loads(data)["shape"][0]) if count is None else count
            expected_bytes = compact(self.metadata(rows))
        except FileNotFoundError:
            return f"{name} is missing"
        except (OSError, ValueError, KeyError, TypeError, IndexError, RecursionError, OverflowError) as error:
            return f"{name} can't be read ({type(error).__name__})"
        return "" if data == expected_bytes else f"{name} does not have the content that was written"

    def _check_size(self, number: int) -> None:
        path = self.chunk_path(number)
        inside, size = path.relative_to(self.folder), self.rows * self.row_bytes + CHECKSUM_BYTES
        try:
            there = path.stat().st_size
        except FileNotFoundError:
            raise DamageError(f"the chunk {inside} is missing") from None
        if there != size:
            raise DamageError(f"the chunk {inside} has {there} bytes instead of {size}")

    def _chunk(self, number: int) -> np.ndarray:
        self._check_size(number)
        path = self.chunk_path(number)
        inside = path.relative_to(self.folder)
        data = read_file(path, self.rows * self.row_bytes + CHECKSUM_BYTES)
        body, own = np.frombuffer(data, np.uint8)[:-CHECKSUM_BYTES], data[-CHECKSUM_BYTES:]
        # A writer may have added rows since, so only those that were published are bound to their place.
        rows = self.rows if self.checksums is None else min(self.rows, self.count - number * self.rows)
        checksum = google_crc32c.value(body[: rows * self.row_bytes])
        if _bytes(google_crc32c.extend(checksum, body[rows * self.row_bytes :])) != own:
            raise DamageError(f"the chunk {inside} does not have the bytes that were written")
        at = number * CHECKSUM_BYTES
        if self.checksums is not None and self.checksums[at : at + CHECKSUM_BYTES] != _bytes(checksum):
            raise DamageError(f"the chunk {inside} is another one than was written there")
        return body.view(self.dtype).reshape(self.rows, *self.shape)


def chunk_rows(row_bytes: int, expected_rows: int | None) -> int:
    """The number of rows in a chunk; `expected_rows` is that of the array, if that is known."""
    least, usual, most = (max(n // max(row_bytes, 1), 1) for n in _CHUNK_BYTES)
    if expected_rows is None:
        return usual
    return max(1, min(expected_rows, int(np.clip(expected_rows // _CHUNKS, least, most))))


def _view(values: np.ndarray) -> np.ndarray:
    """The bytes of a contiguous array, not copied, and read-only, as checksums want them."""
    view = values.reshape(-1).view(np.uint8)
    view.flags.writeable = False
    return view


def _bytes(checksum: int) -> bytes:
    return checksum.to_bytes(CHECKSUM_BYTES, "little")


def compact(value: Any) -> bytes:
    """JSON without spaces."""
    return json.dumps(value, separators=(",", ":")).encode()


def folder_name(name: str) -> str:
    """The folder of an array: its name, with what file systems and zarr treat specially written as %XX.

    Raises ValueError for names that are too long.
    """
    folder = "".join(urllib.parse.quote(c, safe="") if c in _UNSAFE or not c.isprintable() else c for c in name)
    if len(folder.encode()) > _LONGEST_NAME:
        raise ValueError(f"The name `{name[:40]}…` of {len(name)} characters is too long for a file; shorten it.")
    return folder


def _fill(dtype: np.dtype) -> Any:
    match dtype.kind:
        case "f":
            return "NaN"
        case "c":
            return ["NaN", "NaN"]
        case "b":
            return False
        case _:
            return 0
