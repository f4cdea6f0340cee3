"""`polhode resume`: a stored run gone on with."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from polhode.cli.output import FAILED, Json, Quiet, WhenFull, fail, interruptions_reported, say, usage_errors
from polhode.cli.run import kept, report


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

    message = ""
    with usage_errors(), interruptions_reported():
        try:
            if not (quiet or as_json):
                say(f"going on with {run}")
            solution = ph.resume(
                run,
                t1,
                breakpoints=breakpoint or (),
                max_steps=max_steps,
                when_full=when_full,
                progress=not quiet and sys.stderr.isatty(),
            )
        except ph.SimulationError as error:
            solution, message = error.solution, f"{error.reason} {kept(run, error.solution)}"
        except OSError as error:
            fail(str(error), FAILED)
    report(solution, run, {}, as_json, quiet, message)
