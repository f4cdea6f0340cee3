"""One writer at a time: a lock beside a store, with its owner and a sign of life."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import threading
import time
from pathlib import Path
from typing import Any

try:
    import fcntl
except ImportError:  # Windows: the sign of life alone tells whether a writer is there.
    fcntl = None

_SILENT_S = 60.0
"""Without a sign of life for so long, a writer on another machine counts as gone."""

_BEAT_S = 10.0
"""Between two signs of life."""


class LockedError(RuntimeError):
    """Somebody else writes here. The message says who."""


class Lock:
    """An exclusive lock on what is written at `path`.

    The file `.NAME.lock` beside it names its owner. On one machine the operating system holds it and lets go when the
    owner ends, however that happens; between machines that share a disk its age tells, so a thread touches it from
    `acquire` to `release`.
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
            handle = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o644)
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
        owner = {"host": socket.gethostname(), "pid": os.getpid(), "run": self._run, "since": time.time()}
        try:
            os.ftruncate(handle, 0)
            os.lseek(handle, 0, os.SEEK_SET)
            os.write(handle, json.dumps(owner).encode())
            with contextlib.suppress(RuntimeError):
                # A process that is ending begins no threads any more.
                self._heart.start()
        except BaseException:
            self.release()
            raise

    def beat(self) -> None:
        """Give a sign of life."""
        with contextlib.suppress(OSError):
            os.utime(self._file)

    def release(self) -> None:
        """Let go and remove the file."""
        if self._handle is not None:
            self._released.set()
            if self._heart.is_alive():
                self._heart.join()
            handle, self._handle = self._handle, None
            # Others may open the file as soon as it is not locked any more, so it goes before.
            with contextlib.suppress(OSError):
                self._file.unlink(missing_ok=True)
            os.close(handle)
            if fcntl is None:
                # Windows removes no file that is open.
                with contextlib.suppress(OSError):
                    self._file.unlink(missing_ok=True)

    def _live(self) -> None:
        while not self._released.wait(_BEAT_S):
            self.beat()

    def _take(self, handle: int) -> None:
        owner = _owner(handle)
        elsewhere = owner.get("host") not in (None, socket.gethostname())
        if fcntl is not None:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                raise LockedError(_said(owner)) from None
            alive = elsewhere
        else:
            alive = bool(owner)
        if alive and time.time() - os.fstat(handle).st_mtime < _SILENT_S:
            raise LockedError(_said(owner))

    def _is_ours(self, handle: int) -> bool:
        try:
            return os.path.samestat(os.stat(self._file), os.fstat(handle))
        except FileNotFoundError:
            return False


def held(path: Path) -> bool:
    """Whether somebody seems to write at `path`, without disturbing them: their process is there, or gives signs of
    life.
    """
    file = path.with_name(f".{path.name}.lock")
    try:
        handle = os.open(file, os.O_RDONLY)
    except OSError:
        return False
    try:
        owner, age = _owner(handle), time.time() - os.fstat(handle).st_mtime
    finally:
        os.close(handle)
    if fcntl is None or owner.get("host") != socket.gethostname():
        return bool(owner) and age < _SILENT_S
    try:
        os.kill(int(owner["pid"]), 0)
    except PermissionError:
        return True
    except (OSError, KeyError, TypeError, ValueError):
        return False
    return True


def _owner(handle: int) -> dict[str, Any]:
    try:
        os.lseek(handle, 0, os.SEEK_SET)
        found = json.loads(os.read(handle, 4096) or b"{}")
    except ValueError:
        return {}
    return found if isinstance(found, dict) else {}


def _said(owner: dict[str, Any]) -> str:
    since = owner.get("since")
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(since)) if isinstance(since, int | float) else "now"
    return f"process {owner.get('pid', '?')} on {owner.get('host', 'this machine')} has been writing there since {when}"
