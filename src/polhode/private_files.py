"""Files that only their owner can have written, so that their content may be executed."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from pathlib import Path

_OTHERS_WRITE = stat.S_IWGRP | stat.S_IWOTH
_HERE = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)
"""Flags against following links and blocking on pipes."""


def objection(folder: Path) -> str:
    """Why the files of a folder can't be trusted, with the remedy; empty if they can, or if it doesn't exist."""
    try:
        status = os.lstat(folder)
    except OSError:
        return ""
    if stat.S_ISLNK(status.st_mode):
        return f"`{folder}` is a link, which is not followed: put a folder there"
    if not stat.S_ISDIR(status.st_mode):
        return f"`{folder}` is not a folder: move it away"
    if not _is_of_owner(status):
        return f"`{folder}` belongs to another user: move it away, or set XDG_CACHE_HOME to a folder of your own"
    if status.st_mode & _OTHERS_WRITE:
        return f"other users may write in `{folder}`: take that away by `chmod 700`"
    return ""


def make_folder(folder: Path) -> None:
    """Creates a folder and its parent, for this user alone. Raises OSError where one can't be trusted."""
    folder.parent.parent.mkdir(parents=True, exist_ok=True)
    for each in (folder.parent, folder):
        each.mkdir(mode=0o700, exist_ok=True)
        if problem := objection(each):
            raise PermissionError(problem)


def read(path: Path, most: int = -1) -> bytes:
    """Content of a file, or its first bytes.

    Raises OSError for links, for anything but regular files, and for files that others could write.
    """
    handle = os.open(path, os.O_RDONLY | _HERE)
    with open(handle, "rb") as file:
        status = os.fstat(handle)
        if not stat.S_ISREG(status.st_mode) or not _is_of_owner(status) or status.st_mode & _OTHERS_WRITE:
            raise PermissionError(f"`{path}` could be written by others.")
        return file.read(most)


def write(path: Path, content: bytes) -> None:
    """Writes a file atomically, for this user alone."""
    aside = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        handle = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _HERE, 0o600)
        with open(handle, "wb") as file:
            file.write(content)
        aside.replace(path)
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)


def _is_of_owner(status: os.stat_result) -> bool:
    """Whether something belongs to this user, or to the system."""
    # Windows has no such numbers; there, the folder of a user is closed to others.
    return not hasattr(os, "geteuid") or status.st_uid in (0, os.geteuid())
