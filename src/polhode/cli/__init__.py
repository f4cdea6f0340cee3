"""The command `polhode`.

In: arguments. Out: tables or JSON, files, and exit statuses. Open first: `run.py`, the command `polhode run`; each
command is a module, and `output.py` has what they share.
"""

from __future__ import annotations

import gc
import signal
import sys
import warnings
from typing import Any

import typer
from typer.core import TyperGroup

from polhode import _signals, _streams
from polhode.cli.about import about
from polhode.cli.benchmark import benchmark
from polhode.cli.cache import cache
from polhode.cli.cite import cite
from polhode.cli.code import code
from polhode.cli.convergence import convergence
from polhode.cli.export import export
from polhode.cli.inspect import inspect
from polhode.cli.list import list_names
from polhode.cli.models import GroupedOptionsCommand
from polhode.cli.output import RUN_FAILED, format_warning, say
from polhode.cli.reproduce import reproduce
from polhode.cli.resume import resume
from polhode.cli.run import run
from polhode.cli.sweep import sweep
from polhode.cli.view import view


class Commands(TyperGroup):
    """The group of all commands. A signal raised in one of them ends the process with that signal."""

    def invoke(self, ctx: Any) -> Any:
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as error:
            number = _signals.number_of(error)
            if number is None:
                raise
            _signals.end(number, f"ended by {signal.Signals(number).name}.")


app = typer.Typer(
    name="polhode",
    cls=Commands,
    help="Structure-preserving simulation of mechanical systems with large rotations.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    epilog="Exit status: 0 done, 1 a run or check failed (what was computed is kept), 2 wrong usage, "
    "128 + n ended by signal n.",
)
app.command("list")(list_names)
app.command("run", cls=GroupedOptionsCommand)(run)
app.command("sweep")(sweep)
app.command("inspect")(inspect)
app.command("resume")(resume)
app.command("convergence")(convergence)
app.command("reproduce")(reproduce)
app.command("view")(view)
app.command("export", cls=GroupedOptionsCommand)(export)
app.command("code", cls=GroupedOptionsCommand)(code)
app.command("cache")(cache)
app.command("benchmark")(benchmark)
app.command("about")(about)
app.command("cite")(cite)


_OBJECTS = 3_000_000
"""Threshold of the garbage collector, in objects: more than the import of a robot allocates."""


def main() -> None:
    """Entry point of the command."""
    # Garbage collection during imports and tracing takes a quarter of the start-up time and finds almost nothing;
    # the same holds for the collection at exit.
    gc.set_threshold(_OBJECTS, 10, 10)
    warnings.formatwarning = format_warning
    _streams.prepare()
    _signals.hear()
    try:
        try:
            app()
        finally:
            sys.stdout.flush()
    except _streams.OutputError as error:
        _streams.abandon()
        say(f"polhode: {error}")
        sys.exit(RUN_FAILED)
    finally:
        gc.freeze()
