"""`polhode list`: problems, integrators and experiments."""

from __future__ import annotations

import enum
from typing import Annotated, Any

import typer

from polhode.cli.models import get_problem
from polhode.cli.output import Json, console, emit, usage_errors
from polhode.cli.problem_options import Settings


class Kind(enum.StrEnum):
    """The available lists."""

    problems = "problems"
    integrators = "integrators"
    experiments = "experiments"


_COLUMNS = {
    Kind.problems: ("description", "parameters"),
    Kind.integrators: ("order", "evaluations", "error control", "promises"),
    Kind.experiments: ("paper", "title"),
}
"""Columns of the tables; `--json` has all fields."""


def list_names(
    kind: Annotated[Kind | None, typer.Argument(help="What to list; without it, problems and integrators.")] = None,
    taking: Annotated[
        str | None,
        typer.Option(
            "--for", metavar="PROBLEM", help="Say of every integrator whether it takes this problem or model file."
        ),
    ] = None,
    settings: Settings = None,
    as_json: Json = False,
) -> None:
    """List problems, integrators or the papers' experiments."""
    if taking is not None:
        _list_compatibility(kind, taking, settings, as_json)
        return
    if settings:
        raise typer.BadParameter(
            "`--set` goes with `--for`: it is a parameter of that problem, such as formulation=minimal"
        )
    if kind is None:
        if as_json:
            raise typer.BadParameter("name what to list with `--json`: problems, integrators or experiments")
        for each in (Kind.problems, Kind.integrators):
            list_names(each)
        return
    describe = {Kind.problems: _problems, Kind.integrators: _integrators, Kind.experiments: _experiments}[kind]
    if kind is Kind.problems and not as_json:
        describe = _problem_builders
    details = describe()
    if as_json:
        emit({kind.value: list(details), "details": details})
        return
    from rich.table import Table

    headings = _COLUMNS[kind]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("name", *headings):
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for name, row in details.items():
        table.add_row(f"[bold]{name}[/]", *(_cell(row[column]) for column in headings))
    console().print(table)


def _list_compatibility(kind: Kind | None, name: str, settings: list[str] | None, as_json: bool) -> None:
    """Lists the integrators that take a problem, and the reasons of the others."""
    from rich.markup import escape
    from rich.table import Table

    import polhode as ph

    if kind not in (None, Kind.integrators):
        raise typer.BadParameter(f"`--for` goes with integrators, not with {kind}")
    with usage_errors():
        problem, _ = get_problem(name, settings)
    rows = ph.integrators.suited(problem)
    if as_json:
        emit({"problem": problem.name, "integrators": [row._asdict() for row in rows]})
        return
    table = Table(box=None, pad_edge=False, header_style="dim")
    for column in ("name", "takes it", "what speaks for it", "as, or why not"):
        table.add_column(column, no_wrap=column == "name", overflow="fold")
    for row in rows:
        table.add_row(f"[bold]{row.name}[/]", "yes" if row.suited else "no", escape(row.why), escape(row.reason))
    console().print(table)


def _problems() -> dict[str, dict[str, Any]]:
    from polhode import problems

    problems_by_name = {name: problems.get(name) for name in problems.names()}
    return {
        name: {
            "description": problem.doc.strip().splitlines()[0],
            "integrator": problem.integrator,
            "step": problem.h,
            "outputs": list(problem.outputs),
            "parameters": list(problem.parameters),
        }
        for name, problem in problems_by_name.items()
    }


def _problem_builders() -> dict[str, dict[str, Any]]:
    """Descriptions of problems without building them, which takes many seconds."""
    import inspect

    from polhode.problems import registry

    builders = {name: registry.builder_of(name) for name in registry.names()}
    return {
        name: {
            "description": (builder.__doc__ or "").strip().splitlines()[0],
            "parameters": list(inspect.signature(builder).parameters),
        }
        for name, builder in builders.items()
    }


def _integrators() -> dict[str, dict[str, Any]]:
    from polhode import integrators

    methods = {name: integrators.get(name) for name in integrators.names()}
    return {
        name: {
            "order": method.order,
            "evaluations": method.evaluations,
            "error control": method.error_order is not None,
            "systems": [kind.__name__ for kind in method.kinds],
            "options": integrators.options(name),
            "promises": [f"{quantity}: {how}" for quantity, how in method.promises.items()],
        }
        for name, method in methods.items()
    }


def _experiments() -> dict[str, dict[str, Any]]:
    from polhode import experiments

    items = {name: experiments.get(name) for name in experiments.names()}
    return {name: {"paper": item.paper, "title": item.title} for name, item in items.items()}


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "–"
    return ", ".join(value) if isinstance(value, list) else str(value)
