"""The layout of a run in an HDF5 file, which is that of netCDF 4: arrays with dimension scales, and attributes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from polhode.storage import frame_layout
from polhode.storage.errors import DamageError
from polhode.storage.labels import coordinates
from polhode.storage.paged_file import SKIPPED, AbstractPagedFile
from polhode.storage.zarr_arrays import chunk_rows, folder_name

HDF5File = Any
"""An open `h5py.File`. Its annotations say that a name may be that of anything."""

_FORMATS = ("earliest", "v110")
"""Oldest and newest version of HDF5's format: what programs of the last ten years read."""

_CHECKPOINT = "polhode/checkpoint"
"""The data set with the checkpoint, in a group of its own, which readers of labelled data don't open."""

_NO_VARIABLE = "This is a netCDF dimension but not a netCDF variable."
"""How netCDF 4 calls dimensions without labels."""


def library() -> Any:
    """The package h5py. Raises ValueError where it is missing."""
    try:
        import h5py
    except ImportError as error:
        raise ValueError("Runs in HDF5 files need h5py: `pip install 'polhode[hdf5]'`.") from error
    return h5py


def open_file(content: AbstractPagedFile, mode: str) -> HDF5File:
    """HDF5's library on some content. Chunks are not cached, so that only new rows are written.

    Raises DamageError where the library can't open it.
    """
    new = {"userblock_size": SKIPPED} if mode == "w" else {}
    try:
        return library().File(content, mode, libver=_FORMATS, rdcc_nbytes=0, **new)
    except ValueError as error:
        problem = str(error)
    except Exception as error:
        problem = f"HDF5's library can't open it ({type(error).__name__}: {error})"
    # The error itself would hold objects of h5py that crash when the process ends.
    raise DamageError(problem)


def create_arrays(
    file: HDF5File, block: Mapping[str, np.ndarray], meta: Mapping[str, Any], expected: int | None
) -> None:
    """Make the arrays of a run, without rows, with the labels of their dimensions."""
    axes = frame_layout.label(dict(block), meta.get("dimensions", {}))
    lengths = {
        axis: count for name, x in block.items() for axis, count in zip(axes[name][1:], x.shape[1:], strict=True)
    }
    for name, values in block.items():
        shape, dtype = values.shape[1:], values.dtype.newbyteorder("<")
        row_bytes = dtype.itemsize * math.prod(shape)
        file.create_dataset(
            folder_name(name),
            (0, *shape),
            dtype,
            maxshape=(None, *(count or None for count in shape)),
            chunks=(chunk_rows(row_bytes, expected), *(max(count, 1) for count in shape)),
            # Rows are written before they count.
            fill_time="never",
        )
    words = coordinates(meta.get("names", {}), set(lengths))
    scales = {"time": file["time"]}
    for axis, count in lengths.items():
        scale = folder_name(axis)
        if axis in words:
            scales[axis] = file.create_dataset(
                scale, data=[text(word) for word in words[axis][1]], dtype=library().string_dtype()
            )
        elif scale not in file:
            scales[axis] = file.create_dataset(scale, (count,), ">f4")
    for axis, scale in scales.items():
        scale.make_scale(folder_name(axis) if axis == "time" or axis in words else f"{_NO_VARIABLE}{len(scale):10}")
    for name, names in axes.items():
        for number, axis in enumerate(names):
            if axis in scales and name != axis:
                file[folder_name(name)].dims[number].attach_scale(scales[axis])


def text(value: Any) -> Any:
    """A value with words as HDF5 takes them: without lone surrogates and zeros."""
    return (
        value.encode(errors="replace").decode().replace("\0", "\N{REPLACEMENT CHARACTER}")
        if isinstance(value, str)
        else value
    )


def write_rows(file: HDF5File, first: int, blocks: list[dict[str, np.ndarray]]) -> None:
    """Write rows of all arrays, the first of which has that number."""
    h5s = library().h5s
    for name in blocks[0]:
        # A call of the lower interface takes a third of the time.
        array = file[folder_name(name)].id
        values = np.concatenate([block[name] for block in blocks])
        values = np.ascontiguousarray(values, values.dtype.newbyteorder("<"))
        array.set_extent((first + len(values), *values.shape[1:]))
        if values.size:
            place = array.get_space()
            place.select_hyperslab((first, *(0 for _ in values.shape[1:])), values.shape)
            array.write(h5s.create_simple(values.shape), place, values)


def write_checkpoint(file: HDF5File, data: bytes) -> None:
    """Write the checkpoint over the former one."""
    if _CHECKPOINT not in file:
        file.create_dataset(_CHECKPOINT, (0,), np.uint8, maxshape=(None,), chunks=(16 * 1024,))
    array = file[_CHECKPOINT]
    if len(array) < len(data):
        array.resize((len(data),))
    array[: len(data)] = np.frombuffer(data, np.uint8)
    array.attrs["bytes"] = len(data)


def checkpoint_bytes(file: HDF5File) -> int:
    """The size of the checkpoint; 0 without one."""
    return int(file[_CHECKPOINT].attrs["bytes"]) if _CHECKPOINT in file else 0


def read_checkpoint(file: HDF5File) -> bytes:
    """The bytes of the checkpoint."""
    array = file[_CHECKPOINT]
    return array[: checkpoint_bytes(file)].tobytes()
