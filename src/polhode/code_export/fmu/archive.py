"""The archive of a unit: description, sources and a library for this platform, with the same bytes each time."""

from __future__ import annotations

import platform
import tempfile
import uuid
import zipfile
from pathlib import Path

from polhode.code_export import c_compiler
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.fmu.equations_file import HEADER, equations_source
from polhode.code_export.fmu.fmi2 import Fmi2
from polhode.code_export.fmu.fmi3 import Fmi3
from polhode.code_export.fmu.model_header import MODEL, model_header
from polhode.code_export.fmu.standard import AbstractStandard, Unit
from polhode.code_export.fmu.variables import variables_of
from polhode.code_export.library import Library
from polhode.problem import Problem
from polhode.replacement import replacement

STANDARDS: dict[str, AbstractStandard] = {each.version: each for each in (Fmi3(), Fmi2())}
"""The versions of FMI, by their numbers; the first is the default."""

_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all files in archives: the first that they can have."""

_SYSTEMS = {"Linux": ("linux", ".so"), "Darwin": ("darwin", ".dylib"), "Windows": ("windows", ".dll")}
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "i386": "x86", "i686": "x86"}


def write(
    path: Path,
    step: ExportedStep,
    library: Library,
    problem: Problem,
    identifier: str,
    standard: AbstractStandard,
    compiler: str | None,
) -> None:
    """Writes the archive of exported code whose names begin with `MODEL`.

    - `identifier`: the name of its library. - `compiler`: the command that makes it; None for sources only.

    Raises `CompilerError` if the compiler fails, OSError if the file can't be written.
    """
    variables = standard.variables(variables_of(step, problem, library.interface.state))
    token = f"{{{uuid.uuid5(uuid.NAMESPACE_OID, library.digest + repr(variables))}}}"
    units = problem.named.metadata.get("units") if problem.named else None
    unit = Unit(step, variables, identifier, token, units, (f"{MODEL}.c", "equations.c", standard.source))
    files = {name: text.encode() for name, text in (standard.files(unit) | _sources(unit, library)).items()}
    if compiler is not None:
        files |= _binary(compiler, files, unit, standard)
    with replacement(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, files[name])


def _sources(unit: Unit, library: Library) -> dict[str, str]:
    """All files in C: those of the model, and those of this package, which all units have."""
    folder = Path(__file__).parent
    texts = {
        f"{MODEL}.c": library.source,
        f"{MODEL}.h": library.header,
        "equations.h": HEADER,
        "equations.c": equations_source(unit.step),
        "binding.h": model_header(library.interface, unit.variables, unit.token, unit.equations),
        **{name: (folder / name).read_text(encoding="utf-8") for name in ("instance.h", unit.sources[-1])},
    }
    return {f"sources/{name}": text for name, text in texts.items()}


def _binary(compiler: str, files: dict[str, bytes], unit: Unit, standard: AbstractStandard) -> dict[str, bytes]:
    """The library for this platform, by its name in the archive."""
    system, suffix = _SYSTEMS.get(platform.system(), (platform.system().lower(), ".so"))
    machine = platform.machine().lower()
    target = f"{unit.identifier}{suffix}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in files.items():
            if file.startswith("sources/"):
                (folder / Path(file).name).write_bytes(content)
        c_compiler.make_library(compiler, unit.sources, target, folder, "-fvisibility=hidden")
        content = (folder / target).read_bytes()
    return {f"binaries/{standard.platform(system, _MACHINES.get(machine, machine))}/{target}": content}
