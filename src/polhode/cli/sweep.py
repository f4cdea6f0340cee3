"""`polhode sweep`: ensembles of one problem."""

from __future__ import annotations

import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polhode._signals import end, number_of, raise_signals
from polhode.cli import models, sweep_parameters
from polhode.cli.output import (
    RUN_FAILED,
    WRONG_USAGE,
    Json,
    Quiet,
    emit,
    fail,
    file_errors,
    parse_settings,
    say,
    show,
    usage_errors,
)
from polhode.cli.problem_options import (
    Absolute,
    End,
    Method,
    Options,
    Problem,
    Relative,
    Settings,
    Step,
    choose_method,
)
from polhode.progress import progress_bar

if TYPE_CHECKING:
    from polhode.simulation.ensembles.result import Ensemble

_MOST_LISTED = 20

Parameters = Annotated[
    list[str] | None,
    typer.Option(
        "--param",
        "--parameter",
        metavar="NAME=VALUES",
        help="1,2,3 or LOW:HIGH:COUNT; once for each, all combinations are run.",
    ),
]
Samples = Annotated[
    Path | None, typer.Option(metavar="FILE.csv", help="Instead, a table with a column for each, a row a member.")
]
Seeds = Annotated[
    int | None,
    typer.Option(min=1, help="Draw so many members; values are normal:MEAN:DEVIATION or uniform:LOW:HIGH."),
]
Out = Annotated[Path | None, typer.Option(metavar="SWEEP.zarr", help="Store that takes the frames.")]
Statistics = Annotated[
    bool, typer.Option("--statistics", help="Mean, variance and extremes over the members; needs no store.")
]
Resume = Annotated[bool, typer.Option("--resume", help="Go on with the store of the same sweep.")]
Overwrite = Annotated[bool, typer.Option("--overwrite", help="Replace the store of another sweep.")]
Every = Annotated[int | None, typer.Option(min=1, help="Save every that many steps; only the ends by default.")]
Workers = Annotated[int | None, typer.Option(min=1, help="Threads; one for each core by default.")]
Scheduler = Annotated[str | None, typer.Option(metavar="ADDRESS|local:N", help="Run on the workers of Dask instead.")]


def sweep(
    problem: Problem,
    parameter: Parameters = None,
    samples: Samples = None,
    seeds: Seeds = None,
    out: Out = None,
    statistics: Statistics = False,
    resume: Resume = False,
    overwrite: Overwrite = False,
    integrator: Method = None,
    step: Step = None,
    rtol: Relative = None,
    atol: Absolute = None,
    t1: End = None,
    settings: Settings = None,
    option: Options = None,
    save_every: Every = None,
    workers: Workers = None,
    scheduler: Scheduler = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a problem with many values of its parameters, on all cores or many machines."""
    import polhode as ph

    with usage_errors(), file_errors():
        members = sweep_parameters.members(parameter or [], samples, seeds)
        if out is None and not statistics:
            raise ValueError(
                "Nothing of the sweep would be left; give `--out SWEEP.zarr`, or `--statistics` with `--json`."
            )
        options = parse_settings(option, "--option")
        initial_value_problem, _ = models.get_problem(problem, settings)
        method = choose_method(initial_value_problem, integrator, options)
        how: dict[str, Any] = {"h": step, "rtol": rtol, "atol": atol, "t1": t1, "save_every": save_every}
        how |= {"statistics": statistics, "keep": out is not None, "out": out, "resume": resume}
        how |= {"overwrite": overwrite, "workers": workers, "scheduler": scheduler}
        number = None
        with raise_signals(), progress_bar(not quiet and sys.stderr.isatty(), initial_value_problem.name) as progress:
            try:
                ensemble = ph.ensemble(initial_value_problem, method, **members, **how, progress=progress)
            except ImportError as error:
                fail(str(error), WRONG_USAGE)
            except KeyboardInterrupt as error:
                number = number_of(error) or signal.SIGINT
                ensemble = getattr(error, "ensemble", None)
                if ensemble is None:
                    raise
    _report(ensemble, initial_value_problem.name, out, as_json, quiet, number)


def _report(ensemble: Ensemble, name: str, out: Path | None, as_json: bool, quiet: bool, number: int | None) -> None:
    """Print what came of a sweep; end with status 1 if a member did not reach its end, or by the signal that came."""
    stats, failures = ensemble.stats, ensemble.failed
    if as_json:
        rows = [{**each, "result": each["result"].name} for each in failures]
        fields = {str(key): x.values for key, x in ensemble.dataset.data_vars.items() if "member" not in x.dims}
        store = None if out is None else str(out)
        emit({"problem": name, "stats": stats, "failed": rows, "statistics": fields, "store": store})
    elif not quiet:
        finished_count = stats["members"] - stats["failed"]
        show(
            f"{name}: {finished_count} of {stats['members']} members in {stats['wall_time_s']:.3g} s, by {stats['by']}"
        )
        if stats.get("workers_lost"):
            show(f"{stats['workers_lost']} workers were lost on the way; others ran their members")
        if out is not None and not failures:
            show(f"stored in {out}")
    if not failures:
        if number is not None:
            end(number)
        return
    really = [each for each in failures if each["result"].name != "interrupted"]
    for each in really[:_MOST_LISTED]:
        values = ", ".join(f"{key}={value}" for key, value in each["parameters"].items())
        say(f"  member {each['member']} ({values}): {each['result'].name} at t = {each['t_reached']:.6g}")
    if len(really) > _MOST_LISTED:
        say(f"  and {len(really) - _MOST_LISTED} more")
    go_on = " Go on by the same line with `--resume`." if out is not None and len(really) < len(failures) else ""
    message = f"{len(failures)} of {stats['members']} members did not reach their end; the rest is kept.{go_on}"
    if number not in (None, signal.SIGINT):
        sys.stdout.flush()
        end(number, message)
    fail(message, RUN_FAILED)
