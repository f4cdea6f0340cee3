"""`polhode view`: runs in the browser, also those in progress."""

from __future__ import annotations

import signal
import webbrowser
from pathlib import Path
from typing import Annotated

import typer

from polhode._signals import number_of, raise_signals
from polhode.cli.output import WRONG_USAGE, fail, file_errors, say, usage_errors


def view(
    runs: Annotated[list[Path], typer.Argument(metavar="RUN.zarr [OTHER.zarr]", help="One run, or two to compare.")],
    port: Annotated[int, typer.Option(min=0, max=65535, help="Port to serve at; 0 for any free one.")] = 0,
    host: Annotated[str, typer.Option(help="A loopback address to serve at.")] = "127.0.0.1",
    browser: Annotated[bool, typer.Option(help="Open the page in the browser.")] = True,
) -> None:
    """Look at runs in the browser: motion, charts, audit. Runs that still go on are followed. Ctrl-C ends it."""
    from polhode.solution import show
    from polhode.solution.live_run import StoredRun
    from polhode.storage.store_choice import is_run

    for run in runs:
        if not is_run(run):
            fail(f"`{run}` is not a run of polhode; make one with `polhode run PROBLEM --out RUN.zarr`.", WRONG_USAGE)
    with usage_errors(), file_errors():
        sources = [StoredRun(run) for run in runs]
        for source in sources:
            source.look()
        server = show.serve(sources, _labels(runs), port, host)
    say(f"{server.url}\nOpen it in a browser on this machine. Ctrl-C ends it.")
    if browser:
        webbrowser.open(server.url)
    try:
        with raise_signals():
            server.wait()
    except KeyboardInterrupt as error:
        say("")
        if number_of(error) not in (None, signal.SIGINT):
            raise
    finally:
        server.close()


def _labels(runs: list[Path]) -> list[str]:
    names = [run.stem for run in runs]
    return names if len(set(names)) == len(names) else [str(run) for run in runs]
