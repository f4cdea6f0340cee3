"""Progress of work that is counted, such as members of a sweep or pictures of a film, shown on standard error."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator

ProgressCallback = Callable[[int, int], None]
"""Is told how many are done, and how many there are."""


@contextlib.contextmanager
def progress_bar(show: bool, name: str) -> Iterator[ProgressCallback | None]:
    """A bar on standard error, or None unless it is wanted."""
    if not show:
        yield None
        return
    from rich.markup import escape
    from rich.progress import Progress

    from polhode.console import Printable

    with Progress(console=Printable(stderr=True)) as bar:
        job = bar.add_task(escape(name), total=None)
        yield lambda done, count: bar.update(job, completed=done, total=count)
