"""Progress bar on standard error for countable work, such as members of a sweep or pictures of a film."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator

ProgressCallback = Callable[[int, int], None]
"""Called with the number of finished items and the number of all items."""


@contextlib.contextmanager
def progress_bar(show: bool, name: str) -> Generator[ProgressCallback | None]:
    """The callback of a progress bar on standard error, or None unless `show`."""
    if not show:
        yield None
        return
    from rich.markup import escape
    from rich.progress import Progress

    from polhode.console import Printable

    with Progress(console=Printable(stderr=True)) as bar:
        job = bar.add_task(escape(name), total=None)
        yield lambda done, count: bar.update(job, completed=done, total=count)
