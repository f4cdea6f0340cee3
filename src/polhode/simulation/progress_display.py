"""Display of the progress of a run, on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Mapping
from typing import TYPE_CHECKING, Any, Protocol

from polhode.compiler.compile_report import CompileReport

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress as Bar
    from rich.progress import TaskID
    from rich.status import Status


class ProgressDisplay(Protocol):
    """Receiver of the progress of a run."""

    def stage(self, text: str) -> None:
        """Shows the present stage, before steps or between them."""
        ...

    def update(self, t: float) -> None:
        """Shows the time that the run has reached."""
        ...

    def finish(self, stats: Mapping[str, Any]) -> None:
        """Shows the end of the run; `stats` has its times."""
        ...


class NoProgress:
    """A display that shows nothing."""

    def stage(self, text: str) -> None:
        del text

    def update(self, t: float) -> None:
        del t

    def finish(self, stats: Mapping[str, Any]) -> None:
        del stats


class TerminalProgress:
    """A line with the stage until the first step, then a bar, finally the times.

    Where standard error is no terminal, only the full bar is written.
    """

    def __init__(self, name: str, t0: float, t1: float, console: Console) -> None:
        from rich.markup import escape

        self._name, self._t0, self._span, self._console = escape(name), t0, abs(t1 - t0), console
        self._status: Status | None = None
        self._bar: Bar | None = None
        self._job: TaskID | None = None

    def stage(self, text: str) -> None:
        line = f"{self._name}: {text}"
        if self._bar is not None and self._job is not None:
            self._bar.update(self._job, description=line)
        elif self._status is not None:
            self._status.update(line)
        else:
            self._status = self._console.status(line)
            self._status.start()

    def update(self, t: float) -> None:
        if self._bar is None or self._job is None:
            self._end_status()
            self._bar = _bar(self._console)
            self._job = self._bar.add_task(self._name, total=self._span, t=self._t0)
            self._bar.start()
        self._bar.update(self._job, description=self._name, completed=abs(t - self._t0), t=t)

    def finish(self, stats: Mapping[str, Any]) -> None:
        self.close()
        if self._console.is_terminal:
            line = f"{preparation(stats)}, run in {stats['wall_time_s']:.3g} s"
            self._console.print(line, highlight=False, soft_wrap=True)

    def close(self) -> None:
        """Restores the terminal; the text stays."""
        self._end_status()
        if self._bar is not None:
            self._bar.stop()

    def _end_status(self) -> None:
        if self._status is not None:
            self._status.stop()
            self._status = None


@contextlib.contextmanager
def open_display(enabled: bool, name: str, t0: float, t1: float) -> Generator[ProgressDisplay]:
    """The display of a run; it shows nothing unless `enabled`."""
    if not enabled:
        yield NoProgress()
        return
    from polhode.console import Printable

    display = TerminalProgress(name, t0, t1, Printable(stderr=True))
    try:
        yield display
    finally:
        display.close()


def preparation(stats: Mapping[str, Any]) -> str:
    """The times before the first step of a run, as text."""
    form = CompileReport(**stats["compiled"])
    problem_time = stats.get("problem_time_s")
    problem = f"problem made in {problem_time:.3g} s, " if problem_time else ""
    start, compile_time = (f"{stats[key]:.3g} s" for key in ("build_time_s", "compile_time_s"))
    return f"{problem}checked and started in {start}, compiled in {compile_time} ({form})"


def _bar(console: Console) -> Bar:
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("t = {task.fields[t]:.4g}"),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
    )
    return Progress(*columns, console=console)
