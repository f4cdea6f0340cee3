"""`polhode code`: the step of a run in C."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from polhode.cli import models
from polhode.cli.output import RUN_FAILED, Quiet, fail, file_errors, parse_settings, say, status_line, usage_errors
from polhode.cli.problem_options import (
    Controls,
    MeshPath,
    Options,
    Positions,
    Problem,
    Settings,
    Step,
    Velocities,
    build_problem,
    choose_method,
)

Target = Annotated[
    Path,
    typer.Option(
        "--out",
        metavar="FILE",
        help="A .c, which gets a header beside it, a library, .so or .dylib, or a unit of FMI, .fmu.",
    ),
]
Method = Annotated[
    str | None,
    typer.Option("--method", "--integrator", help="Name of an integrator; the problem's own by default."),
]
Inputs = Annotated[
    list[str] | None,
    typer.Option("--input", metavar="NAME", help="A parameter that may change between steps; may be repeated."),
]
Parameters = Annotated[
    list[str] | None,
    typer.Option("--parameter", metavar="NAME", help="A parameter that stays free; may be repeated."),
]
Outputs = Annotated[
    list[str] | None,
    typer.Option("--output", metavar="NAME", help="An output to write, all by default; may be repeated."),
]
Word = Annotated[str | None, typer.Option("--name", help="What names in C begin with; that of the problem by default.")]
Fmi = Annotated[
    str | None, typer.Option("--fmi", metavar="3.0|2.0", help="The version of FMI of a .fmu; 3.0 by default.")
]
Exchange = Annotated[
    bool, typer.Option("--exchange", help="Let other programs solve the equations of a .fmu, too: model exchange.")
]
Derivatives = Annotated[
    list[str] | None,
    typer.Option("--derivative", metavar="along|back", help="A derivative of the step to write; may be repeated."),
]


def code(
    problem: Problem,
    out: Target,
    method: Method = None,
    step: Step = None,
    settings: Settings = None,
    positions: Positions = None,
    velocities: Velocities = None,
    controls: Controls = None,
    mesh_path: MeshPath = None,
    option: Options = None,
    input_: Inputs = None,
    parameter: Parameters = None,
    output: Outputs = None,
    name: Word = None,
    fmi: Fmi = None,
    derivative: Derivatives = None,
    exchange: Exchange = False,
    quiet: Quiet = False,
) -> None:
    """Write the step of a method in C, as a library or for co-simulation, with the bytes of `polhode run`."""
    import polhode as ph

    with usage_errors(), file_errors():
        options = parse_settings(option, "--option")
        start = models.ModelOptions(positions, velocities, controls, mesh_path)
        initial_value_problem, _ = build_problem(problem, settings, start, quiet=quiet)
        integrator = choose_method(initial_value_problem, method, options)
        h = initial_value_problem.h if step is None else step
        try:
            with status_line(f"writing {out}", not quiet):
                ph.export_code(
                    initial_value_problem,
                    integrator,
                    out,
                    h=h,
                    inputs=input_ or (),
                    parameters=parameter or (),
                    outputs=output,
                    name=name,
                    fmi=fmi,
                    derivatives=derivative or (),
                    exchange=exchange,
                )
        except ph.CompilerError as error:
            fail(str(error), RUN_FAILED)
    if not quiet:
        header = "" if out.suffix == ".fmu" else f", with its header {out.with_suffix('.h').name} beside it"
        say(f"written to {out}{header}")
