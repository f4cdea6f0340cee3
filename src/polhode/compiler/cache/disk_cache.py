"""Disk cache of programs, in the user's cache folder.

Each is a file, named by a digest of its inputs and of the versions of everything involved. It is written atomically
and has a checksum: a damaged file, or one of another name, counts as missing. Programs are executed, so they are read
only from folders and files that belong to this user, or to the system, and that nobody else may write. Only programs
of this library and its dependencies are stored; functions of users are traced in every process.
A process whose sources have been changed since it began neither reads nor writes: it may have loaded some modules
before and others after the change.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib.metadata
import os
import pickle
import platform
import re
import stat
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Generic, NamedTuple, TypeVar

import platformdirs

from polhode import private_files
from polhode.compiler.cache import pickles, source_version
from polhode.jax_context import relaxed_gc

T = TypeVar("T")

LIBRARIES = ("jax", "jaxlib", "numpy", "scipy", "equinox", "jaxtyping", "llvmlite")
"""Libraries on which programs depend, besides this one and Python."""

LARGEST = 256_000_000
"""Bytes of all files; beyond that, the least recently used ones are deleted."""

_FAMILY = b"polhode program "
_MAGIC = _FAMILY + b"2\n"
_CHECKSUM = 16
_NAME = re.compile(r"[0-9a-f]{32}|\.[0-9a-f]{32}\.[0-9a-f]{16}")
"""Names of program files, and of temporary ones during writing."""


class Serialiser(NamedTuple, Generic[T]):
    """How an object is stored.

    - `dump(result)`: plain values to pickle; None if it can't be stored. - `load(state, inputs)`: the object from them.
    - `watch(result, write)`: calls `write` whenever the object has been improved.
    """

    dump: Callable[[T], Any]
    load: Callable[[Any, Any], T]
    watch: Callable[[T, Callable[[], None]], None] | None = None


def load_or_build(key: bytes | None, build: Callable[[], T], serialiser: Serialiser[T], inputs: Any) -> T:
    """The object stored under a key, or else a new one, which is then stored; without a key it is only built."""
    if key is None or not is_on() or not source_version.are_unchanged():
        with relaxed_gc():
            return build()
    state = _read(_path(key))
    if state is not None:
        try:
            return serialiser.load(state, inputs)
        except Exception:
            # Whatever is wrong with it, it can be rebuilt.
            discard(key)
    with relaxed_gc():
        result = build()

    def write() -> None:
        # Building it may have loaded more modules.
        if not source_version.are_unchanged():
            return
        with contextlib.suppress(OSError):
            state = serialiser.dump(result)
            if state is not None:
                # There is a key here, and it stays.
                _write(_path(key), state)  # pyrefly: ignore[bad-argument-type]

    write()
    if serialiser.watch is not None:
        serialiser.watch(result, write)
    return result


def folder() -> Path:
    """The folder of the programs."""
    return platformdirs.user_cache_path("polhode") / "programs"


def objection() -> str:
    """Why no programs are stored although the cache is not switched off; empty if they are."""
    return private_files.objection(folder().parent) or private_files.objection(folder())


def is_on() -> bool:
    """Whether programs are stored."""
    return not _is_switched_off() and not objection()


def switch(on: bool) -> None:
    """Switches the cache on or off, for later processes too. Raises OSError where nothing can be written."""
    if on:
        _switch().unlink(missing_ok=True)
    elif not _is_switched_off():
        private_files.make_folder(folder())
        private_files.write(_switch(), b"")


def _switch() -> Path:
    return folder().with_name("nothing-is-kept")


def _is_switched_off() -> bool:
    return os.path.lexists(_switch())


def files() -> list[Path]:
    """All stored programs, the least recently used first."""
    with contextlib.suppress(OSError):
        return [path for _, _, path in sorted(_entries())]
    return []


def sizes() -> list[int]:
    """Bytes of each stored program."""
    with contextlib.suppress(OSError):
        return [size for _, size, _ in _entries()]
    return []


def clear() -> None:
    """Deletes all stored programs, and nothing else. Raises OSError where that is not allowed."""
    if problem := objection():
        raise PermissionError(problem)
    for path in files():
        _delete(path)


def discard(key: bytes) -> None:
    """Deletes the program of a key."""
    with contextlib.suppress(OSError):
        _delete(_path(key))


def _path(key: bytes) -> Path:
    return folder() / hashlib.blake2b(_ENVIRONMENT + key, digest_size=16).hexdigest()


def _environment_digest() -> bytes:
    """Digest of versions, processor and the sources of this library, for which a program is valid."""
    digest = hashlib.blake2b(digest_size=16)
    versions = [f"{name} {version}" for name in LIBRARIES if (version := _version(name)) is not None]
    digest.update(repr((sys.version, platform.platform(), _processor(), versions)).encode())
    root = str(Path(__file__).parents[2])
    for path in sorted(_files(root)):
        # This takes a third of the time of `Path`, in every process.
        with open(path, "rb", buffering=0) as file:
            digest.update(path[len(root) :].encode() + b"\0" + file.read())
    return digest.digest()


def _files(root: str) -> Iterator[str]:
    """Every file of Python in a folder and those inside it."""
    for folder, _, names in os.walk(root):
        yield from (os.path.join(folder, name) for name in names if name.endswith(".py"))


def _version(name: str) -> str | None:
    with contextlib.suppress(importlib.metadata.PackageNotFoundError):
        return importlib.metadata.version(name)
    return None


def _processor() -> tuple[str, ...]:
    try:
        import llvmlite.binding as llvm
    except (ImportError, OSError):
        return (platform.machine(),)
    return llvm.get_host_cpu_name(), llvm.get_host_cpu_features().flatten()


_ENVIRONMENT = _environment_digest()
"""At the start of this process: its programs are not valid for sources that have changed since."""


def _read(path: Path) -> Any:
    """The content of a file; None if it is missing or damaged."""
    try:
        content = private_files.read(path)
        body = content[len(_MAGIC) + _CHECKSUM :]
        if content != _MAGIC + _checksum(path, body) + body:
            return None
        with contextlib.suppress(OSError):
            # The folder may be read-only.
            os.utime(path)
        return pickles.loads(body)
    except Exception:
        return None


def _write(path: Path, state: Any) -> None:
    try:
        body = pickle.dumps(state)
    except Exception:
        # Not every part of a problem can be pickled.
        return
    private_files.make_folder(path.parent)
    private_files.write(path, _MAGIC + _checksum(path, body) + body)
    _make_room()


def _checksum(path: Path, body: bytes) -> bytes:
    """Of a program and its name: under another name it would get other inputs."""
    return hashlib.blake2b(path.name.encode() + b"\0" + body, digest_size=_CHECKSUM).digest()


def _make_room() -> None:
    entries = sorted(_entries())
    excess = sum(size for _, size, _ in entries) - LARGEST
    for _, size, path in entries:
        if excess <= 0:
            return
        _delete(path)
        excess -= size


def _delete(path: Path) -> None:
    """Deletes a program or a temporary file of one, and nothing else."""
    is_partial = path.name.startswith(".")
    with contextlib.suppress(FileNotFoundError):
        if _NAME.fullmatch(path.name) and (is_partial or private_files.read(path, len(_FAMILY)) == _FAMILY):
            path.unlink()


def _entries() -> Iterator[tuple[float, int, Path]]:
    """Time of last use, size and path of each program."""
    for path in [] if folder().is_symlink() else folder().iterdir():
        with contextlib.suppress(FileNotFoundError):
            status = path.lstat()
            if stat.S_ISREG(status.st_mode) and _NAME.fullmatch(path.name):
                yield status.st_mtime, status.st_size, path
