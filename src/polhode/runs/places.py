"""Places of stores on disk: paths, locks, and folders put in place at once."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
from collections.abc import Iterator
from pathlib import Path

from polhode.checks import shown
from polhode.runs.documents import HIDDEN, Kind, is_store
from polhode.runs.errors import OccupiedError, StoreError, explaining
from polhode.runs.locking import Lock, LockedError

TOKEN = 12
"""Letters of the name of a store that keep its files apart from those of others while they are written."""


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


def is_free(path: Path) -> bool:
    """Whether there is nothing at a place, or an empty folder."""
    return not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir()))


def check_room(path: Path, kind: Kind, overwrite: bool, remedy: str = "pass `overwrite=True`") -> None:
    """Raises OccupiedError unless a place is empty, or holds a store of that kind, which may be replaced."""
    if is_free(path):
        return
    if not is_store(path, kind):
        raise OccupiedError(
            f"`{path}` exists and is not {kind.article} {kind.noun} of polhode, so it is left alone. Choose another "
            "place."
        )
    if not overwrite:
        there = f"There is already {kind.article} {kind.noun} at `{path}`"
        raise OccupiedError(f"{there}. Choose another place, or {remedy}.")


def check_there(path: Path) -> None:
    """Raises StoreError if the folder of a store was taken away: a new one would have half of it."""
    if not (path / HIDDEN).is_dir():
        raise StoreError(
            f"The folder of the store `{path}` is gone: it was deleted, renamed or emptied during the run, "
            "which is written no further. Leave the folder alone until the run has ended."
        )


@contextlib.contextmanager
def beginning(path: Path, name: str) -> Iterator[Path]:
    """A folder aside, in which the store with that name begins: put in place at once, with whatever has to be there.

    The place is locked. What others have left there that were killed while they began goes.
    """
    for remains in path.parent.glob(f".{_literal(path.name)}.*.begun"):
        if re.fullmatch(rf"[0-9a-f]{{{TOKEN}}}", remains.name[len(path.name) + 2 : -len(".begun")]):
            _remove(remains)
    aside = path.with_name(f".{path.name}.{name[:TOKEN]}.begun")
    aside.mkdir()
    try:
        yield aside
        _put_in_place(aside, path)
    except BaseException:
        shutil.rmtree(aside, ignore_errors=True)
        raise


def _literal(name: str) -> str:
    """A name as a pattern that only it fits."""
    return re.sub(r"([*?[])", r"[\1]", name)


def _remove(folder: Path) -> None:
    """Removes a folder, and nothing behind a link."""
    if not folder.is_symlink():
        shutil.rmtree(folder, ignore_errors=True)


def _put_in_place(aside: Path, path: Path) -> None:
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
