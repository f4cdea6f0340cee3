"""The archive of a unit: description, sources and a library for this platform, with the same bytes each time."""

from __future__ import annotations

import platform
import tempfile
import uuid
import zipfile
from pathlib import Path

from polhode.code_export import c_compiler
from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.fmu.binding import MODEL, binding
from polhode.code_export.fmu.description import build_description, model_description, terminals
from polhode.code_export.fmu.variables import variables_of
from polhode.code_export.library import Library
from polhode.problem import Problem
from polhode.replacement import replacement

_SOURCES = (f"{MODEL}.c", "fmi3.c")
_SHARED = ("fmi3.c", "instance.h")
"""Files of this package that all units have."""

_DATE = (1980, 1, 1, 0, 0, 0)
"""The date of all files in archives: the first that they can have."""

_SYSTEMS = {"Linux": ("linux", ".so"), "Darwin": ("darwin", ".dylib"), "Windows": ("windows", ".dll")}
_MACHINES = {"amd64": "x86_64", "x64": "x86_64", "arm64": "aarch64", "i386": "x86", "i686": "x86"}


def write(
    path: Path, step: ExportedStep, library: Library, problem: Problem, identifier: str, compiler: str | None
) -> None:
    """Writes the archive of exported code whose names begin with `binding.MODEL`.

    - `identifier`: the name of its library. - `compiler`: the command that makes it; None for sources only.

    Raises `CompilerError` if the compiler fails, OSError if the file can't be written.
    """
    files = _files(step, library, problem, identifier)
    if compiler is not None:
        files |= _binary(compiler, files, identifier)
    with replacement(path) as file, zipfile.ZipFile(file, "w") as archive:
        for name in sorted(files):
            entry = zipfile.ZipInfo(name, _DATE)
            entry.compress_type, entry.external_attr = zipfile.ZIP_DEFLATED, 0o644 << 16
            archive.writestr(entry, files[name])


def _files(step: ExportedStep, library: Library, problem: Problem, identifier: str) -> dict[str, bytes]:
    """All files but the library, by their names in the archive."""
    variables = variables_of(step, problem)
    units = problem.named.metadata.get("units") if problem.named else None
    token = f"{{{uuid.uuid5(uuid.NAMESPACE_OID, library.digest + repr(variables))}}}"
    texts = {
        "modelDescription.xml": model_description(
            step, variables, units, name=problem.name, identifier=identifier, token=token
        ),
        f"sources/{MODEL}.c": library.source,
        f"sources/{MODEL}.h": library.header,
        "sources/binding.h": binding(library.interface, variables, token),
        "sources/buildDescription.xml": build_description(identifier, _SOURCES),
    }
    grouped = terminals(variables)
    if grouped is not None:
        texts["terminalsAndIcons/terminalsAndIcons.xml"] = grouped
    folder = Path(__file__).parent
    texts |= {f"sources/{name}": (folder / name).read_text(encoding="utf-8") for name in _SHARED}
    return {name: text.encode() for name, text in texts.items()}


def _binary(compiler: str, files: dict[str, bytes], identifier: str) -> dict[str, bytes]:
    """The library for this platform, by its name in the archive."""
    system, suffix = _SYSTEMS.get(platform.system(), (platform.system().lower(), ".so"))
    machine = platform.machine().lower()
    target = f"{identifier}{suffix}"
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for file, content in files.items():
            if file.startswith("sources/"):
                (folder / Path(file).name).write_bytes(content)
        c_compiler.make_library(compiler, _SOURCES, target, folder, "-fvisibility=hidden")
        content = (folder / target).read_bytes()
    return {f"binaries/{_MACHINES.get(machine, machine)}-{system}/{target}": content}
