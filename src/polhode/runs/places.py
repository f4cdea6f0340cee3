"""Places of stores on disk: paths, locks, and folders put in place at once."""

from __future__ import annotations

import ctypes
import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING

from polhode.checks import shown
from polhode.runs import root
from polhode.runs.errors import StoreError, explaining
from polhode.runs.locking import Lock, LockedError

if TYPE_CHECKING:
    pass


def resolved(path: str | Path) -> Path:
    """The place behind symbolic links, which are left as they are. Raises ValueError for what is no path."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"The path of a run store must be a path, got {shown(path)}.")
    try:
        return Path(os.path.realpath(path))
    except (ValueError, TypeError) as error:
        raise ValueError(f"The path of a run store must be a path, got {shown(path)}: {error}.") from error


def locked(path: Path, run: str) -> Lock:
    """The lock on a place. Raises StoreError where another process holds it, or where its file is something else."""
    lock = Lock(path, run)
    with explaining(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except LockedError as error:
            raise StoreError(f"`{path}` {error}") from None
    return lock


def check_room(path: Path, overwrite: bool) -> None:
    """Raises StoreError unless a place is empty, or holds a run that may be replaced."""
    if not path.exists() or (path.is_dir() and not any(path.iterdir())):
        return
    if not root.is_run(path):
        raise StoreError(f"`{path}` exists and is not a run of polhode, so it is left alone. Choose another place.")
    if not overwrite:
        raise StoreError(f"There is already a run at `{path}`. Choose another place, or pass `overwrite=True`.")


def put_in_place(aside: Path, path: Path) -> None:
    """Put a folder in place; what was there goes, at once where the system can exchange folders."""
    if not path.exists():
        os.rename(aside, path)
        return
    if not any(path.iterdir()):
        path.rmdir()
        os.rename(aside, path)
        return
    if not _exchanged(aside, path):
        former = aside.with_suffix(".former")
        os.rename(path, former)
        os.rename(aside, path)
        os.rename(former, aside)
    shutil.rmtree(aside, ignore_errors=True)


def _exchanged(a: Path, b: Path) -> bool:
    """Exchange two folders atomically; False where the system can't."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    here, exchange = -100, 2
    return rename(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0
