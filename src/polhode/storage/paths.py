"""Paths of stores: checks, locks, and atomic replacement of folders."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import shutil
from collections.abc import Generator
from pathlib import Path

from polhode.checks import short_repr
from polhode.storage.documents import FILE, HIDDEN, Kind, is_store
from polhode.storage.errors import OccupiedError, StoreError, translate_os_errors
from polhode.storage.locks import Lock, LockedError

TOKEN = 12
"""Letters of the name of a store in the names of its temporary files."""


def resolve(path: str | Path) -> Path:
    """The target of a path with symbolic links resolved. Raises ValueError for what is no path."""
    if not isinstance(path, str | os.PathLike) or not os.fspath(path):
        raise ValueError(f"The path of a run store must be a path, got {short_repr(path)}.")
    try:
        place = Path(os.path.realpath(path))
    except (ValueError, TypeError) as error:
        raise ValueError(f"The path of a run store must be a path, got {short_repr(path)}: {error}.") from error
    except OSError as error:
        raise StoreError(
            f"The store {short_repr(path)} has no place: the folder that this process works in is gone "
            f"({error.strerror}). "
            "Give a whole path, or change to another folder."
        ) from error
    if not place.name:
        raise ValueError(f"The path of a run store must have a name, got {short_repr(path)}.")
    return place


def acquire_lock(path: Path, run: str) -> Lock:
    """Acquires the lock of a store. Raises StoreError if another process holds it, or another file is in its place."""
    lock = Lock(path, run)
    with translate_os_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            lock.acquire()
        except LockedError as error:
            raise StoreError(f"`{path}` {error}") from None
    return lock


def is_free(path: Path) -> bool:
    """Whether a path doesn't exist, or is an empty folder."""
    return not os.path.lexists(path) or (path.is_dir() and not any(path.iterdir()))


def check_room(path: Path, kind: Kind, overwrite: bool, remedy: str = "pass `overwrite=True`") -> None:
    """Raises OccupiedError unless a path is free, or holds only a store of that kind that may be replaced."""
    if _holds_process(path):
        raise OccupiedError(
            f"`{path}` is where this process works, or around it, and a new store takes the place of the whole folder. "
            "Give the name of one within it."
        )
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
    if (other := _foreign(path)) is not None:
        raise OccupiedError(
            f"`{path}` is {kind.article} {kind.noun} of polhode, but `{other.relative_to(path)}` in it is none of its "
            "files, and would be lost. Move it away, or choose another place."
        )


def _holds_process(path: Path) -> bool:
    """Whether a folder is the working directory of this process, or a parent of it."""
    try:
        here = Path(os.path.realpath(os.curdir))
    except OSError:
        return False
    return path.is_dir() and here.is_relative_to(path)


def _foreign(path: Path) -> Path | None:
    """A file in a store that is not one of its own; None without any."""
    for entry in path.iterdir():
        if entry.name == HIDDEN or _is_own(entry):
            continue
        if entry.is_symlink() or not entry.is_dir():
            return entry
        for part in entry.iterdir():
            if part.name != "c" and not _is_own(part):
                return part
    return None


def _is_own(file: Path) -> bool:
    """Whether a file name is that of array metadata, or of files that systems leave anywhere."""
    return file.name == FILE or _LEFTOVERS.fullmatch(file.name) is not None


_LEFTOVERS = re.compile(rf"\.{re.escape(FILE)}\.[0-9a-f]{{{TOKEN}}}|\.DS_Store|\.nfs.*|\._.*|Thumbs\.db|desktop\.ini")
"""Names of temporary files of killed writers, and of file managers and network disks."""


def check_there(path: Path) -> None:
    """Raises StoreError if the folder of a store was removed: a new one would be incomplete."""
    if not (path / HIDDEN).is_dir():
        raise StoreError(
            f"The folder of the store `{path}` is gone: it was deleted, renamed or emptied during the run, "
            "which is written no further. Leave the folder alone until the run has ended."
        )


@contextlib.contextmanager
def staging_folder(path: Path, name: str) -> Generator[Path]:
    """A temporary folder for the first content of a store, which is then moved into place atomically.

    Requires the lock of `path`. Leftovers of writers that were killed at this stage are removed.
    """
    with staging_path(path, name) as aside:
        aside.mkdir()
        yield aside


@contextlib.contextmanager
def staging_path(path: Path, name: str) -> Generator[Path]:
    """The same for a folder or a file that the caller makes."""
    for remains in path.parent.glob(f".{_literal(path.name)}.*.begun"):
        if re.fullmatch(rf"[0-9a-f]{{{TOKEN}}}", remains.name[len(path.name) + 2 : -len(".begun")]):
            _remove(remains)
    aside = path.with_name(f".{path.name}.{name[:TOKEN]}.begun")
    try:
        yield aside
        _put_in_place(aside, path)
    except BaseException:
        _remove(aside)
        raise


def _literal(name: str) -> str:
    """A name with the wildcards of patterns escaped."""
    return re.sub(r"([*?[])", r"[\1]", name)


def _remove(place: Path) -> None:
    """Removes a folder or a file, if there is one; symbolic links are not followed."""
    if place.is_symlink():
        return
    if place.is_dir():
        shutil.rmtree(place, ignore_errors=True)
    else:
        with contextlib.suppress(OSError):
            place.unlink()


def _put_in_place(aside: Path, path: Path) -> None:
    """Move a folder or file into place, replacing what was there; atomic where the system can exchange folders."""
    if aside.is_file() or not path.exists():
        os.replace(aside, path)
        return
    if not any(path.iterdir()):
        path.rmdir()
        os.rename(aside, path)
        return
    if not _exchange(aside, path):
        former = aside.with_suffix(".former")
        os.rename(path, former)
        os.rename(aside, path)
        os.rename(former, aside)
    shutil.rmtree(aside, ignore_errors=True)


def _exchange(a: Path, b: Path) -> bool:
    """Exchange two folders atomically; False where the system can't."""
    try:
        rename = ctypes.CDLL(None, use_errno=True).renameat2
    except (AttributeError, OSError):
        return False
    here, exchange = -100, 2
    return rename(here, os.fsencode(a), here, os.fsencode(b), exchange) == 0
