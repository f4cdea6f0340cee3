"""Atomic replacement of files: a failure on the way leaves the old file."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Generator
from pathlib import Path


@contextlib.contextmanager
def replacement(path: Path) -> Generator[Path]:
    """Context with a temporary path beside a file, which replaces the file at the end if nothing failed.

    The path has the same suffix. A link stays a link, to the new content; a pipe or device is written directly.
    Permissions are those of the old file. Raises OSError, with the name of the file, for a folder and for what can't be
    written.
    """
    target = Path(os.path.realpath(path))
    status = target.stat() if target.exists() else None
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise IsADirectoryError(f"`{path}` is a folder: choose another name.")
    if status is not None and not os.access(target, os.W_OK):
        raise PermissionError(f"`{path}` is write-protected: choose another name.")
    if status is not None and not stat.S_ISREG(status.st_mode):
        yield target
        return
    aside = target.with_name(f".polhode-{secrets.token_hex(6)}{target.suffix}")
    try:
        yield aside
        if status is not None:
            os.chmod(aside, stat.S_IMODE(status.st_mode))
        os.replace(aside, target)
    except OSError as error:
        if error.errno is None or error.strerror is None:
            raise
        raise OSError(error.errno, error.strerror, str(path)) from error
    finally:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
