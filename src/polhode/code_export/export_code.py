"""The function `polhode.export_code`."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from polhode import checks
from polhode.code_export import c_compiler, refusals
from polhode.code_export.derivatives import DIRECTIONS
from polhode.code_export.equations import EquationRequest
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.fmu import archive
from polhode.code_export.fmu.model_header import MODEL
from polhode.code_export.free_numbers import FreeNumbers
from polhode.code_export.library import Library, library_of
from polhode.code_export.structs import identifier
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.placement import with_default_device
from polhode.events.event import Event, flatten_events
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import check_environment
from polhode.problem import Problem
from polhode.replacement import replacement
from polhode.simulation.step_request import positive_step

SUFFIXES = (".c", ".so", ".dylib", ".fmu")


@with_default_device
def export_code(
    problem: Problem,
    method: AbstractIntegrator | str | None,
    path: str | Path,
    *,
    h: float,
    inputs: str | Sequence[str] = (),
    parameters: str | Sequence[str] | None = None,
    outputs: Sequence[str] | None = None,
    events: Sequence[Event] | Event = (),
    name: str | None = None,
    fmi: str | None = None,
    derivatives: str | Sequence[str] = (),
    exchange: bool = False,
) -> Path:
    """Writes the step of a method for a problem in C, and returns the path.

    Compiled with `-ffp-contract=off` and the same C library, the steps are those of `simulate` with this constant step,
    to the byte. The code is C99: one file that needs the standard library only, allocates no memory and has no state
    of its own. Its header says what it takes on the stack.

    - `.c`: the file, and its header `.h` beside it. - `.so`, `.dylib`: a library, which `cc` makes, and the header.
    - `.fmu`: a unit of FMI for co-simulation, and with `exchange` for model exchange, with sources, and the library for
      this platform if there is a `cc`.

    **Arguments:**

    - `problem`, `method`: as for `simulate`, with None for the recommended method.
    - `h`: the constant step.
    - `inputs`: names of numeric parameters of the problem that may change between steps, such as a motor's torque;
      they keep their value within a step.
    - `parameters`: names of those that stay free but don't change during a run; all other numbers become constants.
    - `outputs`: names of those to write, with `invariants.…` and `residuals.…`; all by default.
    - `events`: as for `simulate`; those that end a run or change the system can't be exported.
    - `name`: what names in C begin with, or the name of the unit's library; that of the problem by default.
    - `fmi`: of a unit, the version of FMI: "3.0" by default, or "2.0", whose variables are single numbers.
    - `derivatives`: "along", the change of a step along changes of all that it depends on; "back", gradients from those
      after the step; or both. For states, those of the coordinates that states are stored in. Of a unit, they are
      directional and adjoint derivatives of outputs, and with `exchange` of rates; FMI 2.0 has those along only.
    - `exchange`: whether programs may solve the equations of a unit themselves: of a model without constraints.

    **Raises** ValueError for what can't be exported, with the reason and a remedy, before anything is computed;
    OSError if the file can't be written; `CompilerError` if the C compiler fails.
    """
    check_environment()
    path = Path(path)
    if not isinstance(problem, Problem):
        raise checks.not_a_problem(problem, "a Problem")
    if path.suffix not in SUFFIXES:
        raise ValueError(f"`path` must end in {', '.join(SUFFIXES)}, got `{path.name}`.")
    if not path.parent.is_dir():
        raise FileNotFoundError(
            f"There is no folder `{path.parent}` for `{path.name}`: make it, or choose another path."
        )
    is_unit = path.suffix == ".fmu"
    if fmi is not None and not is_unit:
        raise ValueError(
            f"`fmi` is the version of a unit, got {fmi!r} for `{path.name}`: take a path that ends in .fmu."
        )
    standard = archive.STANDARDS[checks.choice("fmi", "3.0" if fmi is None else fmi, archive.STANDARDS)]
    several = [derivatives] if isinstance(derivatives, str) else derivatives
    directions = checks.sequence("derivatives", several, "directions of derivatives")
    for each in directions:
        checks.choice("derivatives", each, DIRECTIONS)
    if checks.flag("exchange", exchange) and not is_unit:
        raise ValueError(f"`exchange` is for units, and `{path.name}` is none: take a path that ends in .fmu.")
    if is_unit and "back" in directions and standard.version == "2.0":
        raise ValueError('FMI 2.0 has no derivatives "back": take `fmi="3.0"`, or "along".')
    request = EquationRequest(exchange, tuple(directions)) if is_unit and (exchange or directions) else None
    step = positive_step("h", h, "Exported steps go forward in time.")
    word = identifier(problem.name if name is None else checks.word("name", name, "beginning of names in C"))
    if name is not None and word != name:
        raise ValueError(f"`name` must be a word that C takes for a name, got {name!r}; such as {word!r}.")
    compiler = c_compiler.find() if is_unit else None if path.suffix == ".c" else c_compiler.require()
    free = FreeNumbers.of(problem, () if parameters is None else parameters, inputs)
    try:
        recorded = ExportedStep.of(
            problem,
            method,
            step,
            free,
            flatten_events(events),
            outputs,
            restarts=is_unit or bool(free.inputs),
            derivatives=() if is_unit else directions,
            equations=request,
        )
        library = library_of(recorded, MODEL if is_unit else word, problem.name)
    except UnsupportedNativeOperation as reason:
        used = method if isinstance(method, str) else problem.integrator
        raise refusals.no_code(reason, problem.name, used) from None
    if is_unit:
        archive.write(path, recorded, library, problem, word, standard, compiler)
    else:
        _write(library, word, path, compiler)
    return path


def _write(library: Library, name: str, path: Path, compiler: str | None) -> None:
    """Writes the files; the source includes the header by its name."""
    header = path.with_suffix(".h")
    source = library.source.replace(f'#include "{name}.h"', f'#include "{header.name}"')
    if compiler is None:
        with replacement(path) as file:
            file.write_text(source, encoding="utf-8")
    else:
        with tempfile.TemporaryDirectory() as name_of_folder:
            folder = Path(name_of_folder)
            (folder / f"{name}.c").write_text(source, encoding="utf-8")
            (folder / header.name).write_text(library.header, encoding="utf-8")
            with replacement(path) as file:
                c_compiler.make_library(compiler, [f"{name}.c"], file.resolve(), folder)
    with replacement(header) as file:
        file.write_text(library.header, encoding="utf-8")
