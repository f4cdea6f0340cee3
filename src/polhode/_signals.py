"""Handling of signals that end the command `polhode`, from its start to its end.

Until there is something to lose they end it at once. Exceptions would not do: those that are raised while modules are
loaded are lost in callbacks, or come out as errors of whatever was being loaded. A run that a signal ends hands it on
when its store is safe, see `polhode.simulation.loops.signals`, and while files are being written it is raised.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
from collections.abc import Generator
from typing import Any, NoReturn

NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


class Signal(KeyboardInterrupt):
    """A signal that ends the command.

    - `number`: which.
    """

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.number = number


def number_of(error: BaseException | None) -> int | None:
    """The number of the signal that caused an exception; None if no signal did."""
    while error is not None:
        if isinstance(error, Signal):
            return error.number
        error = error.__cause__
    return None


def hear() -> None:
    """Let signals end this process, with a message. Ignored signals, as with `nohup`, stay ignored."""
    for name in NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _end_or_raise)


def end(number: int, text: str = "") -> NoReturn:
    """End this process as the signal does, so that shells and queues see what ended it. `text` comes before."""
    for stream in (sys.stdout, sys.stderr):
        # Errors of a stream can't be reported any more.
        with contextlib.suppress(Exception):
            stream.flush()
    if text:
        with contextlib.suppress(OSError):
            os.write(2, f"polhode: {text}\n".encode(errors="backslashreplace"))
    signal.signal(number, signal.SIG_DFL)
    signal.raise_signal(number)
    # Not reached where signals end processes.
    os._exit(128 + number)


@contextlib.contextmanager
def raise_signals() -> Generator[None]:
    """Within the context a signal is raised as an exception, so that temporary files are removed. A second one ends."""
    former = {}

    def handler(number: int, frame: Any) -> NoReturn:
        signal.signal(number, _end_or_raise)
        raise Signal(number)

    for name in NAMES:
        number = getattr(signal, name, None)
        if number is not None and signal.getsignal(number) is _end_or_raise:
            former[number] = signal.signal(number, handler)
    try:
        yield
    finally:
        for number, before in former.items():
            signal.signal(number, before)


def _end_or_raise(number: int, frame: Any) -> NoReturn:
    # A run that passes a signal on does so without a frame.
    if frame is None:
        raise Signal(number)
    end(number, f"ended by {signal.Signals(number).name}.")
