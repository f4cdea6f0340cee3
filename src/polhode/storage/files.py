"""Reading and atomic replacement of files of stores."""

from __future__ import annotations

import os
import stat
from collections.abc import Sequence
from pathlib import Path

from polhode.storage.errors import DamageError

_LARGEST_BYTES = 1 << 30
"""Of a file whose size is not known beforehand: a root with metadata, or a checkpoint."""


def read_file(path: Path, size: int | None = None) -> bytes:
    """The content of a regular file. Pipes, sockets and devices, which may never end, are not read.

    Raises DamageError for anything else than a file, and for one that has not the `size` in bytes; OSError where it
    can't be opened.
    """
    # Without the flag, opening a pipe waits for its other end.
    handle = os.open(path, os.O_RDONLY | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_BINARY", 0))
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode):
            raise DamageError(f"`{path.name}` is no regular file")
        if size is not None and status.st_size != size:
            raise DamageError(f"`{path.name}` has {status.st_size} bytes instead of {size}")
        if status.st_size > _LARGEST_BYTES and size is None:
            raise DamageError(f"`{path.name}` has {status.st_size} bytes, too many for what it is")
        return file.read()


def replace(path: Path, parts: Sequence[bytes | memoryview], token: str) -> None:
    """Put a file in place at once; `token` keeps files of other writers apart. Makes its folder."""
    aside = path.with_name(f".{path.name}.{token}")
    try:
        file = aside.open("wb")
    except FileNotFoundError:
        path.parent.mkdir(parents=True, exist_ok=True)
        file = aside.open("wb")
    try:
        with file:
            for part in parts:
                file.write(part)
        os.replace(aside, path)
    except BaseException:
        aside.unlink(missing_ok=True)
        raise
