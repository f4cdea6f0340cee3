"""Waits for the optimised machine code, which is compiled in another thread during runs."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

from polhode.compiler.llvm.jit import CompiledFunction


def wait_until_compiled() -> None:
    """Wait until nothing is being compiled."""
    for thread in threading.enumerate():
        if thread.name == "polhode-compiler":
            thread.join()


def with_most_effort(run: Callable[[], object]) -> None:
    """Run until all that it uses is compiled with most effort, as it is in runs that last some seconds."""
    for _ in range(3):
        for code in (x for x in gc.get_objects() if isinstance(x, CompiledFunction)):
            code._seconds_left = 0.0
        run()
        wait_until_compiled()
