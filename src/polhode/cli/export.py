"""`polhode export`: a stored run in another format."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polhode._signals import raise_signals
from polhode.cli.output import WRONG_USAGE, Quiet, fail, file_errors, say, usage_errors

if TYPE_CHECKING:
    from polhode.solution.solution import Solution


ENDINGS = ".csv, .parquet, .nc, .png, .html, .mp4, .gif, .glb or .pvd"
"""Formats for the help of commands."""


def export(
    run: Annotated[Path, typer.Argument(metavar="RUN.zarr", help="A run written with `--out` or `solution.save`.")],
    file: Annotated[Path, typer.Argument(metavar="FILE", help=f"What to write: {ENDINGS}.")],
    columns: Annotated[
        list[str] | None,
        typer.Option(
            help="Columns of a table: names such as crank.angle, whole bodies or joints, patterns like *.power."
        ),
    ] = None,
    joints: Annotated[bool, typer.Option(help="Mark joints and the ground in films and glTF.")] = True,
    tint: Annotated[str | None, typer.Option(help="What colours the rods of a film, such as curvature.")] = None,
    arrows: Annotated[list[str] | None, typer.Option(help="Arrows of a film, such as 'joint force' or weight.")] = None,
    quiet: Quiet = False,
) -> None:
    """Write a run as csv, netCDF, a figure, an offline page, a film, glTF, or for ParaView."""
    from polhode.solution.load import load
    from polhode.storage.store_choice import is_run

    if not is_run(run):
        fail(f"`{run}` is not a run of polhode; make one with `polhode run PROBLEM --out RUN.zarr`.", WRONG_USAGE)
    with usage_errors(), file_errors():
        check_endings([file])
        write_files(load(run), [file], quiet, columns=columns, joints=joints, tint=tint, arrows=arrows or ())


def check_endings(files: Sequence[Path]) -> None:
    """Raises ValueError for suffixes that name no format, before anything is computed."""
    from polhode.solution.export import check_ending

    for file in files:
        check_ending(file)


def write_files(
    solution: Solution,
    files: Sequence[Path],
    quiet: bool,
    **chosen: Any,
) -> None:
    """Write a run to files; messages go to standard error."""
    from polhode.solution import export

    for file in files:
        with warnings.catch_warnings(record=True) as notes, file_errors(), raise_signals():
            export(solution, file, **chosen, progress=not quiet and sys.stderr.isatty())
        if not quiet:
            for note in notes:
                say(str(note.message))
            say(f"written to {file}")
