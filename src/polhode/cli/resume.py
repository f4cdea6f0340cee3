"""`polhode resume`: continuation of a stored run."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from polhode.cli.output import Json, Quiet, WhenFull, interruptions_reported, say, usage_errors
from polhode.cli.run_report import carry_out, report


def resume(
    run: Annotated[Path, typer.Argument(metavar="RUN.zarr", help="A run written with `--out`, of any length.")],
    t1: Annotated[float | None, typer.Option(help="Another end, beyond what is reached.")] = None,
    breakpoint: Annotated[list[float] | None, typer.Option(help="Steps end there; beyond the present end.")] = None,
    max_steps: Annotated[int | None, typer.Option(min=1, help="Another limit of steps.")] = None,
    when_full: WhenFull = "fail",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Go on with a stored run, from the last state that was written, as if it had never stopped."""
    import polhode as ph

    with usage_errors(), interruptions_reported():
        if not (quiet or as_json):
            say(f"going on with {run}")
        progress = not quiet and sys.stderr.isatty()
        how = {"breakpoints": breakpoint or (), "max_steps": max_steps, "when_full": when_full, "progress": progress}
        outcome = carry_out(run, lambda: ph.resume(run, t1, **how))
    report(outcome, run, {}, as_json, quiet)
