"""A background thread for writing during a run."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Job(Generic[T]):
    """A call in its own thread, or at once where no thread can be started, as when the process ends."""

    def __init__(self, act: Callable[[], T], name: str) -> None:
        self._act, self._over = act, threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        try:
            threading.Thread(target=self._run, name=name).start()
        except RuntimeError:
            self._run()

    def is_done(self) -> bool:
        """Whether it has returned, or failed."""
        return self._over.is_set()

    def wait(self) -> None:
        """Waits for the end of the call; Ctrl-C interrupts the waiting, not the call."""
        self._over.wait()

    def result(self) -> T:
        """The result of the call; raises its exception if it failed."""
        self.wait()
        if self._error is not None:
            raise self._error
        return self._value

    def _run(self) -> None:
        try:
            self._value = self._act()
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()
