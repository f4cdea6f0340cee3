"""Signals that end a run, and their effect on the script that made it.

A run stops after the present block of steps. When everything is written and its store is closed, the signal is passed
on, so that it ends loops over runs and jobs of batch queues as it ends any other program: SIGTERM and SIGHUP end the
process, with their status, and Ctrl-C raises a KeyboardInterrupt, which has the partial run. A script that handles a
signal itself gets it then, and the partial run. A second Ctrl-C doesn't wait for the block.
"""

from __future__ import annotations

import contextlib
import signal
import threading
from collections.abc import Callable, Generator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from polhode.solution.solution import Solution

_NAMES = ("SIGINT", "SIGTERM", "SIGHUP")


_INTERRUPTING = (signal.default_int_handler, signal.SIG_IGN, signal.SIG_DFL)
"""Handlers of SIGINT with which it becomes a KeyboardInterrupt."""


def interruption(
    reason: str, solution: Solution | None = None, ensemble: Any = None, *, repeated: bool = False
) -> KeyboardInterrupt:
    """The exception of Ctrl-C: with the run, or the ensemble, as far as it came, in an attribute of that name.

    `repeated` says whether Ctrl-C was pressed again before the block of steps had ended. It is a KeyboardInterrupt
    itself, because Python ends with the status of SIGINT for no class derived from it.
    """
    where = "ensemble" if solution is None else "solution"
    error = KeyboardInterrupt(f"{reason} Everything up to there is in `error.{where}`, or `sys.last_value.{where}`.")
    for name, value in {"solution": solution, "ensemble": ensemble, "repeated": repeated}.items():
        setattr(error, name, value)
    return error


class Interrupts:
    """Signals that have come since a run began.

    **Arguments:**

    - `stop`: says whether the run is to end for another reason, as one of many does when all are to.
    """

    def __init__(self, stop: Callable[[], bool] = bool) -> None:
        self._stop = stop
        self._numbers: list[int] = []
        self._former: dict[int, Any] = {}
        self._partial: KeyboardInterrupt | None = None

    def is_set(self) -> bool:
        """Whether one has come, or the run is to end for another reason."""
        return bool(self._numbers) or self._stop()

    def keep(self, partial: KeyboardInterrupt) -> None:
        """The exception of Ctrl-C, with what was computed."""
        self._partial = partial

    def raises(self) -> bool:
        """Whether a KeyboardInterrupt will be raised when the signals are passed on."""
        return set(self._numbers) == {signal.SIGINT} and self._former.get(signal.SIGINT) in _INTERRUPTING

    def hear(self) -> None:
        """Catch signals from now on."""
        for name in _NAMES:
            number = getattr(signal, name, None)
            if number is not None and self._is_to_be_heard(number):
                self._former[number] = signal.signal(number, self._handler)

    def _is_to_be_heard(self, number: int) -> bool:
        """Whether a signal ends runs: not if it is ignored, or handled by another program that Python runs in."""
        handler = signal.getsignal(number)
        # Shells have programs in the background ignore Ctrl-C; somebody has sent it nevertheless.
        return handler is not None and (handler != signal.SIG_IGN or number == signal.SIGINT)

    def restore(self) -> None:
        """Leave signals to whoever handled them before."""
        for number, before in self._former.items():
            signal.signal(number, before)

    def hand_on(self) -> None:
        """Give the signal that has come to whoever handled it before; one that ends the process goes first."""
        numbers = sorted(set(self._numbers), key=lambda number: number == signal.SIGINT)
        if not numbers:
            return
        try:
            self._deliver(numbers[0])
        except KeyboardInterrupt as raised:
            if self._partial is None:
                raise
            raise self._partial from raised

    def _deliver(self, number: int) -> None:
        handler = self._former.get(number)
        if callable(handler):
            # At no line of a program, which is what `None` says.
            handler(number, None)
        elif number == signal.SIGINT:
            # Shells have programs in the background ignore it; somebody has sent it nevertheless.
            raise KeyboardInterrupt
        elif handler == signal.SIG_DFL:
            signal.raise_signal(number)

    def _handler(self, number: int, frame: Any) -> None:
        again = number == signal.SIGINT and bool(self._numbers)
        self._numbers.append(number)
        if again:
            self._deliver(number)


@contextlib.contextmanager
def interrupts(stop: Callable[[], bool] = bool) -> Generator[Interrupts]:
    """Ctrl-C, SIGTERM and SIGHUP are noted and, at the end, handed on to whoever handled them before.

    A second Ctrl-C raises KeyboardInterrupt at once. Outside the main thread, where signals can't be caught, none is
    noted. Signals that are ignored, as a hang-up is in programs started by `nohup`, stay ignored; only SIGINT is heard
    even where a shell has started a program in the background. `stop` is as for `Interrupts`.
    """
    signals = Interrupts(stop)
    if threading.current_thread() is not threading.main_thread():
        yield signals
        return
    signals.hear()
    try:
        yield signals
    except KeyboardInterrupt:
        # It has been handed on.
        signals.restore()
        raise
    except BaseException:
        signals.restore()
        signals.hand_on()
        raise
    else:
        signals.restore()
        signals.hand_on()
