"""Arrays of a store that are written once, as one chunk: labels, parameters, instants, statistics.

The root has a digest of each. Words are in zarr's data type `string`, with lengths before them.
"""

from __future__ import annotations

import struct
from pathlib import Path
from typing import Any

import google_crc32c
import numpy as np

from polhode.checks import short_repr
from polhode.storage.documents import FILE, digest
from polhode.storage.errors import DamageError
from polhode.storage.files import read_file, replace
from polhode.storage.zarr_arrays import CHECKSUM_BYTES, ArrayFiles, compact

Constants = dict[str, tuple[tuple[str, ...], np.ndarray]]
"""Name → names of the dimensions, and values."""

_EMPTY = ""
"""Digest of an empty array, which has no chunk."""


def write_array(
    folder: Path, dimensions: tuple[str, ...], values: np.ndarray, token: str
) -> tuple[dict[str, Any], str]:
    """Write an array. Returns its metadata for the root, and the digest of its chunk."""
    if values.dtype.kind == "U":
        metadata, data = _of_words(len(values), dimensions), _pack_words(values.tolist())
    else:
        rows = max(1, len(values))
        files = ArrayFiles(folder, values.dtype.newbyteorder("<"), values.shape[1:], rows, dimensions)
        metadata, data = files.metadata(len(values)), np.ascontiguousarray(values, files.dtype).tobytes()
    checksum = _EMPTY
    if values.size:
        data += google_crc32c.value(data).to_bytes(CHECKSUM_BYTES, "little")
        replace(_chunk(folder, values.ndim), [data], token)
        checksum = digest(data)
    replace(folder / FILE, [compact(metadata)], token)
    return metadata, checksum


def read_array(folder: Path, metadata: dict[str, Any], expected_digest: str) -> tuple[tuple[str, ...], np.ndarray]:
    """Names of the dimensions and values. Raises DamageError where they don't match the root."""
    of_words = isinstance(metadata, dict) and metadata.get("data_type") == "string"
    try:
        shape = tuple(int(n) for n in metadata["shape"])
        if of_words:
            (count,), (axis,) = shape, metadata["dimension_names"]
            dimensions, dtype = (str(axis),), np.dtype(str)
            if _of_words(count, dimensions) != metadata:
                raise DamageError(f"the metadata of `{folder.name}` are none that polhode writes")
        else:
            files = ArrayFiles.from_metadata(folder, metadata)
            dimensions, dtype = files.dimensions, files.dtype
            if files.rows != max(1, shape[0]):
                raise DamageError(f"`{folder.name}` has several chunks")
    except (KeyError, TypeError, ValueError, OverflowError) as error:
        raise DamageError(f"the metadata of `{folder.name}` make no sense: {error}") from None
    if 0 in shape:
        return dimensions, np.zeros(shape, dtype)
    data = _bytes(folder, len(shape), expected_digest)
    try:
        values = np.array(_unpack_words(data), str) if of_words else np.frombuffer(data, dtype).reshape(shape)
    except (ValueError, struct.error) as error:
        raise DamageError(f"the chunk of `{folder.name}` makes no sense: {error}") from None
    if values.shape != shape:
        raise DamageError(f"the chunk of `{folder.name}` has other than {shape[0]} values")
    return dimensions, values


def damage(folder: Path, metadata: Any, expected_digest: str) -> str:
    """Damage to an array, its own metadata included, in words; "" without any."""
    try:
        read_array(folder, metadata, expected_digest)
        data = read_file(folder / FILE)
    except FileNotFoundError:
        return f"`{folder.name}/{FILE}` is missing"
    except (OSError, ValueError) as error:
        return str(error)
    return "" if data == compact(metadata) else f"`{folder.name}/{FILE}` does not have the content that was written"


def check_digests(entry: Any) -> dict[str, str]:
    """`entry` of a root if it maps folders to digests. Raises ValueError otherwise."""
    good = isinstance(entry, dict) and all(isinstance(value, str) and _is_folder(name) for name, value in entry.items())
    if not good:
        raise ValueError(f"{short_repr(entry)} are no arrays of a store")
    return entry


def _is_folder(name: str) -> bool:
    """Whether a name is that of a folder directly in the store."""
    return Path(name).parts == (name,) and name not in ("..", ".polhode") and "\0" not in name


def _chunk(folder: Path, ndim: int) -> Path:
    return folder.joinpath("c", *("0" * ndim))


def _bytes(folder: Path, ndim: int, expected_digest: str) -> bytes:
    try:
        data = read_file(_chunk(folder, ndim))
    except FileNotFoundError:
        raise DamageError(f"the chunk of `{folder.name}` is missing") from None
    if digest(data) != expected_digest:
        raise DamageError(f"the chunk of `{folder.name}` does not have the bytes that were written")
    return data[:-CHECKSUM_BYTES]


def _of_words(count: int, dimensions: tuple[str, ...]) -> dict[str, Any]:
    """zarr's metadata of a list of words."""
    return {
        "zarr_format": 3,
        "node_type": "array",
        "shape": [count],
        "data_type": "string",
        "chunk_grid": {"name": "regular", "configuration": {"chunk_shape": [max(1, count)]}},
        "chunk_key_encoding": {"name": "default", "configuration": {"separator": "/"}},
        "fill_value": "",
        "codecs": [{"name": "vlen-utf8"}, {"name": "crc32c"}],
        "attributes": {},
        "dimension_names": list(dimensions),
        "storage_transformers": [],
    }


def _pack_words(words: list[str]) -> bytes:
    """Words in the codec `vlen-utf8`: their number, then each preceded by its length."""
    # A lone surrogate has no encoding.
    items = [word.encode(errors="replace") for word in words]
    return struct.pack("<I", len(words)) + b"".join(struct.pack("<I", len(word)) + word for word in items)


def _unpack_words(data: bytes) -> list[str]:
    (count,), at = struct.unpack_from("<I", data), 4
    words = []
    for _ in range(count):
        (size,) = struct.unpack_from("<I", data, at)
        words.append(data[at + 4 : at + 4 + size].decode())
        at += 4 + size
    return words
