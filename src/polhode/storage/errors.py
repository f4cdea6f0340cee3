"""Errors of stores."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Generator
from pathlib import Path

_REMEDIES = {
    errno.ENOSPC: "The disk is full: free some space or choose another place.",
    errno.EDQUOT: "Your disk quota is used up: free some space or choose another place.",
    errno.EFBIG: "The file would exceed the largest size allowed here: save fewer frames or choose another place.",
    errno.EACCES: "You may not write there: choose another place or change its permissions.",
    errno.EPERM: "You may not write there: choose another place or change its permissions.",
    errno.EROFS: "The file system is read-only: choose another place.",
    errno.EEXIST: "A part of the path is a file, not a folder: choose another place.",
    errno.ENOTDIR: "A part of the path is a file, not a folder: choose another place.",
    errno.ENAMETOOLONG: "A name in the path is too long: choose a shorter one.",
    errno.ENOENT: "A part of the path is gone: was it removed during the run?",
}

FULL = (errno.ENOSPC, errno.EDQUOT)
"""Error numbers of the operating system for a disk without space."""


class StoreError(OSError):
    """A store could not be made, written or read. The message names its path, the cause and a remedy."""


class OccupiedError(StoreError, ValueError):
    """The place of a new store is occupied: an error of the caller rather than of the disk."""


class DamageError(ValueError):
    """A file of a store is missing, is no regular file, has the wrong size, or not the bytes that were written."""


@contextlib.contextmanager
def translate_os_errors(path: Path) -> Generator[None]:
    """Turns an OSError on files of a store into a StoreError with the same `errno`."""
    try:
        yield
    except StoreError:
        raise
    except OSError as error:
        remedy = _REMEDIES.get(error.errno or 0, "Check the disk or choose another place.")
        store_error = StoreError(f"The store `{path}` failed: {error}. {remedy}")
        store_error.errno = error.errno
        raise store_error from error
