"""`polhode reproduce`: runs the papers' experiments and checks their claims."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polhode._signals import raise_signals
from polhode.cli.output import RUN_FAILED, Json, Quiet, console, emit, fail, say, usage_errors

if TYPE_CHECKING:
    from polhode.experiments import Report


def reproduce(
    experiments: Annotated[
        list[str] | None,
        typer.Argument(metavar="[EXPERIMENT…]", help="Names; `polhode list experiments` shows them."),
    ] = None,
    everything: Annotated[bool, typer.Option("--all", help="All experiments.")] = False,
    paper: Annotated[str | None, typer.Option(metavar="N", help="All experiments of one paper.")] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="Fewer steps and shorter spans, with the claims that these can show.")
    ] = False,
    small: Annotated[
        bool, typer.Option("--small", help="A page to keep or to send: figures of few pixels, no data beside it.")
    ] = False,
    workers: Annotated[
        int | None, typer.Option(metavar="N", help="Processes among which experiments are shared; all cores otherwise.")
    ] = None,
    out: Annotated[Path, typer.Option(metavar="DIR", help="Folder for the report and its data.")] = Path(
        "reproduction"
    ),
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run numerical experiments of the papers and check their claims; exit status 1 if a check fails."""
    import polhode as ph
    from polhode import checks
    from polhode.experiments import registry

    if sum((bool(experiments), everything, paper is not None)) != 1:
        fail("name experiments, or give one of `--all` and `--paper N`.", 2)
    with usage_errors():
        if experiments:
            names = [registry.get(name).name for name in experiments]
        else:
            names = registry.names(None if paper is None else paper.zfill(3))
        workers = checks.count("workers", (os.cpu_count() or 1) if workers is None else workers, "processes", most=1024)
    try:
        with raise_signals():
            report = ph.reproduce(names, out, quick=quick, small=small, workers=workers, progress=not quiet)
    except OSError as error:
        fail(f"the report could not be written: {error}", RUN_FAILED)
    if as_json:
        emit({"passed": report.passed, "checks": report.checks, "report": str(report.path)})
    elif not quiet:
        _show(report)
    if not quiet:
        say(f"report: {report.path}")
    failures = sum(not check["passed"] for check in report.checks)
    if failures:
        fail(f"{failures} of {len(report.checks)} checks failed.", RUN_FAILED)


def _show(report: Report) -> None:
    from rich.table import Table

    from polhode.experiments.report import in_words

    table = Table(title="Checks", title_justify="left", title_style="bold")
    for column in ("experiment", "check", "claimed", "measured", ""):
        table.add_column(column, overflow="fold")
    for check in report.checks:
        verdict = "[green]passed[/]" if check["passed"] else "[bold red]failed[/]"
        cells = (check["experiment"], check["name"], in_words(check["claimed"]), in_words(check["measured"]))
        table.add_row(*cells, verdict)
    console().print(table)
