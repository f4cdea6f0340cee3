"""Signals that end a run: it stops after the block of steps that is going on, with everything kept."""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Iterator
from typing import Any

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


@contextlib.contextmanager
def interrupts() -> Iterator[threading.Event]:
    """An event set by Ctrl-C, SIGTERM or SIGHUP; a second Ctrl-C raises KeyboardInterrupt at once.

    Outside the main thread, where signals can't be caught, it is never set. A hang-up that is ignored, as in programs
    started by `nohup`, stays ignored; SIGINT is heard even where a shell has started a program in the background.
    """
    event = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield event
        return

    def handler(signum: int, frame: Any) -> None:
        if event.is_set() and signum == signal.SIGINT:
            signal.default_int_handler(signum, frame)
        event.set()

    former: dict[int, Any] = {}
    for name in _NAMES:
        number = getattr(signal, name, None)
        if number is not None and not (name == "SIGHUP" and signal.getsignal(number) is signal.SIG_IGN):
            former[number] = signal.signal(number, handler)
    try:
        yield event
    finally:
        for number, before in former.items():
            signal.signal(number, before)
