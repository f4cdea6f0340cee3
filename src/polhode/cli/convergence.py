"""`polhode convergence`: errors against step sizes, and observed orders."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polhode.checks import short_repr
from polhode.cli import models
from polhode.cli.output import (
    RUN_FAILED,
    Json,
    Quiet,
    console,
    emit,
    fail,
    parse_settings,
    say,
    usage_errors,
)
from polhode.cli.problem_options import Options, Settings
from polhode.importers.formats import ENDINGS

if TYPE_CHECKING:
    from polhode.analysis.studies.convergence import Convergence


def convergence(
    problem: Annotated[
        str, typer.Argument(metavar="PROBLEM|MODEL_FILE", help=f"Name of a problem, or a model file: {ENDINGS}.")
    ],
    integrator: Annotated[str, typer.Option(metavar="NAME[,NAME…]", help="Names of integrators.")],
    steps: Annotated[str, typer.Option(metavar="H0:H1:N", help="N step sizes from H0 to H1 in equal ratios.")],
    t1: Annotated[float | None, typer.Option(help="Where errors are measured; the problem's end by default.")] = None,
    settings: Settings = None,
    option: Options = None,
    plot: Annotated[Path | None, typer.Option(metavar="FILE", help="Figure (png, svg, pdf).")] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Measure the orders of integrators on a problem."""
    import polhode as ph

    studies: dict[str, Convergence] = {}
    with usage_errors():
        sizes = _sizes(steps)
        options = parse_settings(option, "--option")
        names = _names(integrator)
        methods = {name: ph.integrators.get(name, **options) for name in names}
        _check_plot(plot)
        initial_value_problem, model = models.get_problem(problem, settings)
        if model is not None and not (quiet or as_json):
            models.announce(model)
            models.explain(initial_value_problem, method=False)
        for name, method in methods.items():
            if not quiet and sys.stderr.isatty():
                say(f"{name} …")
            try:
                study = ph.studies.convergence(initial_value_problem, method, sizes, t1=t1)
            except ph.SimulationError as error:
                fail(f"{name}: {error.reason}", RUN_FAILED)
            studies[name] = dataclasses.replace(study, integrator=name)
    if plot is not None:
        _plot(studies, plot)
    if as_json:
        emit(_summary(problem, studies) | ({"options": options} if options else {}))
    elif not quiet:
        _show(studies)


_MOST = 1000
"""Largest number of step sizes in a study."""


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",") if name.strip()]
    if not names:
        raise ValueError(f"`--integrator` takes names of integrators, NAME[,NAME…], got {short_repr(text)}.")
    return names


def _sizes(text: str) -> list[float]:
    import numpy as np

    try:
        first, last, count = text.split(":")
        h0, h1, n = float(first), float(last), int(count)
    except ValueError as error:
        raise ValueError(f"`--steps` takes H0:H1:N such as 0.01:0.0001:5, got {short_repr(text)}.") from error
    if not (h0 > 0 and h1 > 0 and h0 != h1 and 2 <= n <= _MOST and np.isfinite(h0 + h1)):
        raise ValueError(
            f"`--steps` needs two different positive step sizes and N from 2 to {_MOST}, got {short_repr(text)}."
        )
    return np.geomspace(h0, h1, n).tolist()


def _check_plot(plot: Path | None) -> None:
    endings = (".png", ".svg", ".pdf")
    if plot is not None and plot.suffix.lower() not in endings:
        raise ValueError(f"`--plot {plot}` must end in one of {', '.join(endings)}.")


def _summary(problem: str, studies: dict[str, Convergence]) -> dict[str, object]:
    parts = {name: study.to_dict() for name, study in studies.items()}
    keys = ("steps", "errors", "orders", "reference")
    t1 = next(iter(studies.values())).t1 if studies else None
    return {"problem": problem, "t1": t1, **{key: {name: part[key] for name, part in parts.items()} for key in keys}}


def _show(studies: dict[str, Convergence]) -> None:
    from rich.markup import escape
    from rich.table import Table

    for name, study in studies.items():
        table = Table(
            title=f"{escape(study.problem)}, {escape(name)}, error at t = {study.t1:g}",
            title_justify="left",
            title_style="bold",
        )
        table.add_column("h", justify="right")
        for output in study.errors:
            table.add_column(escape(output.replace("_", " ")), justify="right")
        for i, h in enumerate(study.steps):
            table.add_row(f"{h:.4g}", *(f"{errors[i]:.3e}" for errors in study.errors.values()))
        table.add_section()
        table.add_row("[bold]order[/]", *(f"[bold]{study.orders[output]:.2f}[/]" for output in study.errors))
        table.caption = f"reference: {escape(study.reference)}"
        console().print(table)


def _plot(studies: dict[str, Convergence], path: Path) -> None:
    from polhode.replacement import replacement
    from polhode.viewing import plots

    outputs = next(iter(studies.values())).errors
    panels = {
        f"error of {output.replace('_', ' ')}": {name: (s.steps, s.errors[output]) for name, s in studies.items()}
        for output in outputs
    }
    try:
        with replacement(path) as part:
            plots.convergence_panels(panels).savefig(part)
    except OSError as error:
        fail(f"the figure could not be written: {error}", RUN_FAILED)
    say(f"figure written to {path}")
