"""Files that replace others when they are whole: what fails on the way leaves the former one."""

from __future__ import annotations

import contextlib
import os
import secrets
import stat
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacement(path: Path) -> Iterator[Path]:
    """A name beside that of a file, to be written; it takes the file's place once everything has gone well.

    The name has the same ending. A link stays one, to the new content; a pipe or device is written itself. Permissions
    are those of the former file. Raises OSError, with the name of the file, for a folder and for what can't be written.
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
