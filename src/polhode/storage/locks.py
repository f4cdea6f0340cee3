"""Locks of stores: a file beside the store with its owner and a heartbeat."""

from __future__ import annotations

import contextlib
import errno
import json
import math
import os
import socket
import stat
import tempfile
import threading
import time
from pathlib import Path
from typing import NamedTuple

from polhode.printable import printable

try:
    import fcntl
except ImportError:  # Windows: only the heartbeat shows whether a writer is alive.
    fcntl = None

_SILENT_S = 60.0
"""Seconds without a heartbeat after which a writer on another machine counts as dead."""

_BEAT_S = 10.0
"""Seconds between two heartbeats."""

_LONGEST = 4096
"""Bytes of a lock; a longer file is none."""

_SAFELY = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags that open neither what a link points to nor wait for the other end of a pipe."""


class LockedError(RuntimeError):
    """Another process writes here, or a file that is no lock is in its place. The message follows the path."""


class Owner(NamedTuple):
    """Content of a lock: the process that writes, which run it writes, and since when (seconds since 1970)."""

    host: str
    pid: int
    run: str
    since: float

    @classmethod
    def now(cls, run: str) -> Owner:
        """This process, from now on."""
        return cls(socket.gethostname(), os.getpid(), run, time.time())

    @classmethod
    def parse(cls, content: bytes) -> Owner | None:
        """The owner that a lock names; None for what no lock contains."""
        try:
            fields = json.loads(content)
            owner = cls(**fields)
        except (ValueError, TypeError, RecursionError):
            return None
        words = isinstance(owner.host, str) and isinstance(owner.run, str)
        number = type(owner.pid) is int and 0 < owner.pid < 2**31
        moment = type(owner.since) in (int, float) and math.isfinite(owner.since) and 0 <= owner.since < 2**36
        return owner if words and number and moment else None

    def __str__(self) -> str:
        when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(self.since))
        return f"process {self.pid} on {printable(self.host)} has been writing there since {when}"

    def is_here(self) -> bool:
        """Whether it is a process of this machine."""
        return self.host == socket.gethostname()


class Lock:
    """An exclusive lock on what is written at `path`.

    The file `.NAME.lock` beside it names its owner. On one machine the operating system releases it when the owner
    ends in any way; between machines that share a disk its age decides, so a thread touches it from `acquire` to
    `release`. A file of that name that is no lock, or a link, is never written, nor deleted.
    """

    def __init__(self, path: Path, run: str) -> None:
        self._file = path.with_name(f".{path.name}.lock")
        self._run = run
        self._handle: int | None = None
        self._released = threading.Event()
        self._heart = threading.Thread(target=self._live, name="polhode-lock", daemon=True)

    def acquire(self) -> None:
        """Take the lock, or raise LockedError. OSError where no file can be made."""
        while True:
            handle = self._open()
            try:
                self._take(handle)
            except BaseException:
                os.close(handle)
                raise
            if self._is_ours(handle):
                break
            # The former owner has removed the file between our opening and locking it.
            os.close(handle)
        self._handle = handle
        try:
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, json.dumps(Owner.now(self._run)._asdict()).encode())
            with contextlib.suppress(RuntimeError):
                # A process that is ending can't start threads.
                self._heart.start()
        except BaseException:
            self.release()
            raise

    def beat(self) -> None:
        """Touch the file, as a heartbeat."""
        with contextlib.suppress(OSError):
            # By its handle where possible: another file may have its name by now.
            os.utime(self._handle if os.utime in os.supports_fd and self._handle is not None else self._file)

    def release(self) -> None:
        """Release the lock and remove the file."""
        if self._handle is not None:
            self._released.set()
            if self._heart.is_alive():
                self._heart.join()
            handle, self._handle = self._handle, None
            ours = self._is_ours(handle)
            # Others may open the file as soon as it is not locked any more, so it goes before.
            with contextlib.suppress(OSError):
                if ours:
                    self._file.unlink(missing_ok=True)
            os.close(handle)
            if fcntl is None and ours:
                # Windows removes no file that is open.
                with contextlib.suppress(OSError):
                    self._file.unlink(missing_ok=True)

    def _live(self) -> None:
        while not self._released.wait(_BEAT_S):
            self.beat()

    def _open(self) -> int:
        """The file, made if there is none. Raises LockedError for a link or a folder."""
        try:
            return os.open(self._file, os.O_RDWR | os.O_CREAT | _SAFELY, 0o644)
        except OSError as error:
            if error.errno in _NO_FILE or self._file.is_symlink():
                raise LockedError(self._is_no_lock()) from None
            raise

    def _take(self, handle: int) -> None:
        about = os.fstat(handle)
        content = _content(handle)
        owner = None if content is None else Owner.parse(content)
        # A process that ended between making its lock and writing it leaves an empty file.
        if owner is None and (content != b"" or about.st_nlink > 1):
            raise LockedError(self._is_no_lock())
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise LockedError(_in_use(owner)) from None
            alive = owner is not None and not owner.is_here()
        else:
            alive = owner is not None
        if alive and not _is_silent(about, _time_of_files(self._file.parent)):
            raise LockedError(_in_use(owner))

    def _is_ours(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.lstat(self._file), os.fstat(handle))
        except FileNotFoundError:
            return False

    def _is_no_lock(self) -> str:
        return (
            f"needs a lock, and `{printable(self._file.name)}` beside it, where that would be, is something else and "
            "left as it is. Move it away, or choose another place."
        )


def is_locked(path: Path) -> bool:
    """Whether a writer at `path` is alive, by its process or its heartbeat; the lock is only read."""
    file = path.with_name(f".{path.name}.lock")
    try:
        handle = os.open(file, os.O_RDONLY | _SAFELY)
    except OSError:
        return False
    try:
        content, about = _content(handle), os.fstat(handle)
    finally:
        os.close(handle)
    owner = None if content is None else Owner.parse(content)
    if owner is None:
        return False
    if fcntl is None or not owner.is_here():
        return not _is_silent(about, time.time())
    try:
        os.kill(owner.pid, 0)
    except PermissionError:
        return True
    except OSError:
        return False
    return True


def _in_use(owner: Owner | None) -> str:
    who = "another process has just begun to write there" if owner is None else str(owner)
    return f"is in use: {who}. Wait for it, or choose another place."


_NO_FILE = (errno.ELOOP, errno.EISDIR, errno.ENXIO)
"""Errors of opening what is no regular file."""


def _content(handle: int) -> bytes | None:
    """Content of a file; None for what is no file, or is longer than any lock."""
    about = os.fstat(handle)
    if not stat.S_ISREG(about.st_mode) or about.st_size > _LONGEST:
        return None
    os.lseek(handle, 0, os.SEEK_SET)
    return os.read(handle, _LONGEST)


def _is_silent(about: os.stat_result, now: float) -> bool:
    """Whether a lock has no recent heartbeat. One far in the future, of a wrong clock, does not count."""
    return abs(now - about.st_mtime) >= _SILENT_S


def _time_of_files(folder: Path) -> float:
    """The time by the clock that dates files in a folder, which on a shared disk is not that of this machine."""
    with tempfile.TemporaryFile(dir=folder) as file:
        return os.fstat(file.fileno()).st_mtime
