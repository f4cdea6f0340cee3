"""Start of the command `polhode`, before the library is loaded, which takes most of a second."""

from __future__ import annotations

import _signal  # pyrefly: ignore[missing-import]
import os
import sys


def is_command() -> bool:
    """Whether this process is the command, as a script or as `python -m polhode`."""
    if sys.argv[:1] == ["-m"]:
        # While Python looks for a module to run; its name follows.
        words = sys.orig_argv
        return words[words.index("-m") + 1 : words.index("-m") + 2] == ["polhode"]
    name = os.path.basename(sys.argv[0]) if sys.argv else ""
    # Its child processes have the same arguments.
    return name in ("polhode", "polhode.exe") and "-c" not in sys.orig_argv[:2]


if is_command():
    # Loading the signal handlers takes some milliseconds.
    if _signal.getsignal(_signal.SIGINT) is _signal.default_int_handler:
        _signal.signal(_signal.SIGINT, _signal.SIG_DFL)
    from polhode import _signals, _streams

    _streams.complete()
    _signals.hear()
