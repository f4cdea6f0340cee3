"""`polhode run`: one simulation, its results and its audit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from polhode.cli import models
from polhode.cli.export import ENDINGS, check_endings, write_files
from polhode.cli.output import (
    Json,
    Quiet,
    WhenFull,
    fail,
    interruptions_reported,
    parse_settings,
    say,
    usage_errors,
)
from polhode.cli.problem_options import (
    Absolute,
    Controls,
    End,
    MeshPath,
    Method,
    Options,
    Positions,
    Problem,
    Relative,
    Settings,
    Step,
    Velocities,
    build_problem,
    choose_method,
)
from polhode.cli.run_report import carry_out, report

if TYPE_CHECKING:
    from polhode.problem import Problem as InitialValueProblem

Out = Annotated[
    Path | None,
    typer.Option(metavar="RUN.zarr", help="Store to which the run is streamed; an HDF5 file if it ends in .h5."),
]
Exports = Annotated[
    list[Path] | None,
    typer.Option("--export", metavar="FILE", help=f"Write the run as {ENDINGS} as well; may be repeated."),
]
Every = Annotated[int, typer.Option(min=1, help="Save every that many steps.")]
Breakpoints = Annotated[
    list[float] | None, typer.Option("--breakpoint", metavar="T", help="A time at which loads jump; may be repeated.")
]
EstimateError = Annotated[
    bool, typer.Option("--estimate-error", help="Run with half the step as well; print the digits of every output.")
]


def run(
    problem: Problem,
    integrator: Method = None,
    step: Step = None,
    rtol: Relative = None,
    atol: Absolute = None,
    t1: End = None,
    settings: Settings = None,
    positions: Positions = None,
    velocities: Velocities = None,
    controls: Controls = None,
    mesh_path: MeshPath = None,
    option: Options = None,
    out: Out = None,
    export: Exports = None,
    save_every: Every = 1,
    breakpoint_: Breakpoints = None,
    estimate_error: EstimateError = False,
    when_full: WhenFull = "fail",
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run a problem; print final outputs, drifts, residuals and the audit."""
    import polhode as ph
    from polhode.storage.store_choice import is_run

    if step is not None and (rtol is not None or atol is not None):
        fail("give either a constant `--step`, or `--rtol` and `--atol`, not both.", 2)
    talk = not (quiet or as_json)
    with usage_errors(), interruptions_reported():
        check_endings(export or ())
        options = parse_settings(option, "--option")
        start = models.ModelOptions(positions, velocities, controls, mesh_path)
        initial_value_problem, model = build_problem(problem, settings, start, quiet=quiet)
        method = choose_method(initial_value_problem, integrator, options)
        if talk:
            if model is not None:
                models.announce(model)
            named = integrator or (initial_value_problem.integrator if options else None)
            _announce(initial_value_problem, _method_text(named, options), step, rtol, t1)
            models.explain(initial_value_problem, method=integrator is None and rtol is None)
        replaces = out is not None and is_run(out)
        how: dict[str, Any] = {"h": step, "rtol": rtol, "atol": atol, "t1": t1, "save_every": save_every}
        how |= {"breakpoints": breakpoint_ or (), "when_full": when_full, "estimate_error": estimate_error}
        progress = not quiet and sys.stderr.isatty()
        outcome = carry_out(
            out, lambda: ph.simulate(initial_value_problem, method, store=out, overwrite=True, progress=progress, **how)
        )
    if replaces and not quiet:
        say(f"replaced the earlier run in {out}")
    write_files(outcome.solution, export or (), quiet=not talk)
    more = models.summary(model) if model is not None else {}
    if options:
        more |= {"integrator": integrator or initial_value_problem.integrator, "options": options}
    report(outcome, out, more, as_json, quiet)


def _method_text(integrator: str | None, options: dict[str, Any]) -> str | None:
    """The method with its options, as the user gave them."""
    settings = ", ".join(f"{key}={value}" for key, value in options.items())
    return f"{integrator} ({settings})" if settings else integrator


def _announce(
    problem: InitialValueProblem, integrator: str | None, step: float | None, rtol: float | None, t1: float | None
) -> None:
    method = integrator or ("recommended for tolerances" if rtol is not None else f"{problem.integrator} (recommended)")
    if rtol is not None:
        size = f"rtol = {rtol:g}"
    else:
        size = f"h = {step:g}" if step is not None else f"h = {problem.h:g} (recommended)"
    say(f"{problem.name}: {method}, {size}, t = {problem.t_span[0]:g} … {problem.t_span[1] if t1 is None else t1:g}")
