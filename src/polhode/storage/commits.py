"""Commits of a journaled file: two slots in its user block, and the seals that they point to.

A seal has the checksums of all pages, and the journal: changes that are yet to be made in place. `journaled_file.py`
has the order in which they are written.
"""

from __future__ import annotations

import os
import stat
import struct
from pathlib import Path
from typing import NamedTuple, Self

import google_crc32c
import numpy as np

from polhode.storage.documents import digest
from polhode.storage.errors import DamageError
from polhode.storage.paged_file import page_count

MAGIC = b"A run of polhode: HDF5, which begins at byte 4096.\n"
SLOTS = (1024, 2048)
"""Places of the slots."""

_SLOT = struct.Struct("<8sQ32sQQQ32s")
_KIND = b"plhd\0\0\0\1"
"""First bytes of a slot; the last one is the number of the format."""

Journal = list[tuple[int, bytes]]
"""Changes: places, and the bytes that come there."""


class Commit(NamedTuple):
    """The content of a slot: the run, the size of the content, and where its seal is, with a digest."""

    number: int
    run: str
    size: int
    seal_at: int
    seal_bytes: int
    seal_digest: str

    def pack(self) -> bytes:
        """The content of a slot."""
        number, run, size, at, count, seal_digest = self
        data = _SLOT.pack(_KIND, number, run.encode(), size, at, count, seal_digest.encode())
        return data + google_crc32c.value(data).to_bytes(4, "little")

    @classmethod
    def unpack(cls, data: bytes) -> Self | None:
        """The commit in a slot; None in one that is empty, damaged or of another version of this layout."""
        body, checksum = data[: _SLOT.size], data[_SLOT.size :]
        if google_crc32c.value(body).to_bytes(4, "little") != checksum:
            return None
        kind, number, run, size, at, count, seal_digest = _SLOT.unpack(body)
        if kind != _KIND:
            return None
        return cls(number, run.decode(errors="replace"), size, at, count, seal_digest.decode(errors="replace"))

    @property
    def end(self) -> int:
        """Where the seal ends."""
        return self.seal_at + self.seal_bytes


class State(NamedTuple):
    """A commit with its seal: checksums of all pages, and the journal."""

    commit: Commit
    checksums: np.ndarray
    journal: Journal


def open_regular(path: Path, flags: int = os.O_RDONLY) -> int:
    """A handle of a regular file; pipes are not waited for. Raises DamageError for anything else."""
    handle = os.open(path, flags | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    if not stat.S_ISREG(os.fstat(handle).st_mode):
        os.close(handle)
        raise DamageError("it is no regular file")
    return handle


def newest_commit(handle: int) -> Commit:
    """The last commit. Raises DamageError without one.

    Where the last slot is damaged it is the one before, whose checksums don't fit what the last one has changed.
    """
    slots = [Commit.unpack(read_bytes(handle, _SLOT.size + 4, at)) for at in SLOTS]
    commits = [commit for commit in slots if commit is not None]
    if not commits:
        raise DamageError("its header does not have the bytes that were written")
    return max(commits)


def read_state(handle: int) -> State:
    """The last commit, with its seal. Raises DamageError where these are damaged."""
    commit = newest_commit(handle)
    while True:
        try:
            return _unseal(commit, read_bytes(handle, commit.seal_bytes, commit.seal_at))
        except DamageError:
            # A writer may have written another one in between.
            former, commit = commit, newest_commit(handle)
            if commit == former:
                raise


def read_bytes(handle: int, count: int, at: int) -> bytes:
    """So many bytes of a file. Raises DamageError where it ends before."""
    if not 0 <= at <= at + count <= os.fstat(handle).st_size:
        raise DamageError(f"it ends before byte {at + count}, it was cut off")
    os.lseek(handle, at, os.SEEK_SET)
    data = b""
    while len(data) < count and (part := os.read(handle, count - len(data))):
        data += part
    if len(data) < count:
        raise DamageError(f"it ends before byte {at + count}, it was cut off")
    return data


def write_bytes(handle: int, at: int, data: bytes | bytearray | memoryview) -> None:
    """Write all bytes at a place."""
    os.lseek(handle, at, os.SEEK_SET)
    view = memoryview(data)
    while view:
        view = view[os.write(handle, view) :]


def seal(checksums: np.ndarray, journal: Journal) -> bytes:
    """The bytes of a seal."""
    places = np.array([(at, len(data)) for at, data in journal], "<u8")
    head = struct.pack("<QQ", len(checksums), len(journal))
    return b"".join((head, checksums.astype("<u4").tobytes(), places.tobytes(), *(data for _, data in journal)))


def _unseal(commit: Commit, data: bytes) -> State:
    if digest(data) != commit.seal_digest:
        raise DamageError("its checksums are damaged, or it was changed by another program")
    pages, changes = struct.unpack_from("<QQ", data)
    checksums = np.frombuffer(data, "<u4", pages, 16)
    places = np.frombuffer(data, "<u8", 2 * changes, 16 + 4 * pages).reshape(changes, 2)
    journal, at = [], 16 + 4 * pages + 16 * changes
    for place, count in places.tolist():
        journal.append((place, data[at : at + count]))
        at += count
    if pages != page_count(commit.size):
        raise DamageError("its checksums are not those of its pages")
    return State(commit, checksums, journal)
