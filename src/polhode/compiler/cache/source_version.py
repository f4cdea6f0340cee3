"""Check that the sources of this library haven't changed since this process began."""

from __future__ import annotations

import os
import sys
import time

_TICK = 20_000_000
"""Nanoseconds by which the clock of files may lag behind that of the process."""

_BEGAN = time.time_ns() - _TICK
"""Before any other module of this library was loaded: `polhode/__init__.py` begins with this one."""

_UNCHANGED_MODULES: set[str] = set()


def are_unchanged() -> bool:
    """Whether no module that was loaded so far has been written since this process began.

    Modules are loaded when they are first used, so one may be newer than the others. A module that was unchanged after
    loading isn't checked again.
    """
    for name in [name for name in sys.modules if name.startswith("polhode.") and name not in _UNCHANGED_MODULES]:
        path = getattr(sys.modules[name], "__file__", None)
        if path is not None and _change_time(path) > _BEGAN:
            return False
        _UNCHANGED_MODULES.add(name)
    return True


def _change_time(path: str) -> int:
    """When a file was last written, moved or replaced, in nanoseconds; now if it is missing."""
    try:
        status = os.stat(path)
    except OSError:
        return time.time_ns()
    return max(status.st_mtime_ns, status.st_ctime_ns)
