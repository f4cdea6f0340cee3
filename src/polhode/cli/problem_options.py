"""Arguments of commands that say which problem is run, and how; and what they stand for."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from polhode.cli import models
from polhode.cli.output import status_line
from polhode.importers import formats

if TYPE_CHECKING:
    from polhode.importers.imported_model import ImportedModel
    from polhode.integrators.base import AbstractIntegrator
    from polhode.problem import Problem as InitialValueProblem

Problem = Annotated[
    str,
    typer.Argument(
        metavar="PROBLEM|MODEL_FILE",
        help=f"Name of a problem, as `polhode list problems` shows them, or a model file: {formats.ENDINGS}.",
    ),
]
Method = Annotated[str | None, typer.Option(help="Name of an integrator; the problem's own by default.")]
Step = Annotated[float | None, typer.Option(help="Constant step size; the problem's own by default.")]
Relative = Annotated[float | None, typer.Option(help="Relative tolerance: control the error.")]
Absolute = Annotated[float | None, typer.Option(help="Absolute tolerance; rtol / 100 by default.")]
End = Annotated[float | None, typer.Option(help="End of the run; the problem's own by default.")]
Positions = Annotated[
    list[str] | None,
    typer.Option(metavar="JOINT=VALUE …", help="Joints of a model file at the start, in m and rad; several at once."),
]
Velocities = Annotated[
    list[str] | None, typer.Option(metavar="JOINT=VALUE …", help="Their velocities at the start, likewise.")
]
Controls = Annotated[
    list[str] | None, typer.Option(metavar="ACTUATOR=VALUE …", help="Controls of a model file's actuators, likewise.")
]
Settings = Annotated[
    list[str] | None,
    typer.Option("--set", metavar="KEY=VALUE", help="A parameter of the problem: a number, a JSON array, or a word."),
]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="KEY=VALUE", help="An option of the integrator, such as rho_inf=0.8."),
]
MeshPath = Annotated[
    list[str] | None,
    typer.Option(
        "--mesh-path", metavar="FOLDER", help="Where meshes of a model file are looked for as well; repeatable."
    ),
]


def build_problem(
    name: str, settings: list[str] | None, start: models.ModelOptions, *, quiet: bool
) -> tuple[InitialValueProblem, ImportedModel | None]:
    """The problem of a name or model file, and the model of a file; says that it is being built, unless quiet."""
    with status_line(f"building {name}", not quiet):
        return models.get_problem(name, settings, start)


def choose_method(
    problem: InitialValueProblem, integrator: str | None, options: dict[str, Any]
) -> AbstractIntegrator | str | None:
    """The named method, or the problem's own, with options; without options just the name, if any."""
    from polhode import integrators

    return integrators.get(integrator or problem.integrator, **options) if options else integrator
