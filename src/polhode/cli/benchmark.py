"""`polhode benchmark`: the same models by all installed codes at equal errors."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from polhode._signals import raise_signals
from polhode.checks import short_repr
from polhode.cli.output import RUN_FAILED, Json, Quiet, emit, fail, say, show, usage_errors

if TYPE_CHECKING:
    from polhode.cli.peers import Measurement

SECTION = "benchmark"
"""The section of the file that `--update` writes."""


def benchmark(
    models: Annotated[
        list[str] | None, typer.Argument(metavar="[MODEL]…", help="Which models; all by default.")
    ] = None,
    peers: Annotated[
        str, typer.Option(metavar="PYTHON", help="The Python that has the other codes; this one by default.")
    ] = sys.executable,
    update: Annotated[
        Path | None,
        typer.Option(metavar="FILE.md", help="Put the table of all models between two marks in this file."),
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the same models by polhode and by the codes that are installed: what an equal error costs in each.

    Each code takes its own largest step that is accurate enough. One process runs at a time.
    """
    from polhode.cli import markdown_section
    from polhode.cli import peers as codes

    with usage_errors():
        names = _case_names(models or [])
        if update is not None:
            if models:
                raise ValueError("`--update` writes the table of all models: name none, or leave it out.")
            markdown_section.parts(update, SECTION)
        if not codes.folder().is_dir():
            raise ValueError(f"The scripts are not in {codes.folder()}: install polhode from a wheel or a checkout.")
    versions = {
        "polhode": codes.installed_version(sys.executable, "polhode"),
        "JAX": codes.installed_version(sys.executable, "jax"),
    }
    others = dict.fromkeys(code for name in names for code in codes.CASES[name].codes)
    versions |= {code: codes.installed_version(peers, code) for code in others}
    absent = [code for code in others if versions[code] is None]
    if absent and not quiet:
        packages = " ".join(codes.PACKAGES.get(code, code) for code in absent)
        say(f"Not installed, and left out: {codes.titles(absent)}. `pip install {packages}`")
    rows, failures = _measure_all(names, absent, peers, quiet)
    known_versions = {code: version for code, version in versions.items() if version is not None}
    lines = [*codes.table(rows), "", codes.machine(known_versions, absent)]
    if as_json:
        emit(
            {"rows": [row._asdict() for row in rows], "versions": known_versions, "missing": absent, "failed": failures}
        )
    elif update is None:
        show("\n".join(lines))
    if failures:
        fail("Some didn't run, so that no table was written." if update is not None else "Some didn't run.", RUN_FAILED)
    if update is not None:
        try:
            markdown_section.write(update, SECTION, lines)
        except OSError as error:
            fail(f"`{update}` can't be written: {error}.", RUN_FAILED)
        say(f"table written to {update}")


def _measure_all(names: list[str], absent: list[str], peers: str, quiet: bool) -> tuple[list[Measurement], list[str]]:
    """Measurements of each model in polhode and the codes that are not absent, and messages of those that failed."""
    from polhode.cli import peers as codes

    rows, failures = [], []
    for name in names:
        for code in ("polhode", *codes.CASES[name].codes):
            if code in absent:
                continue
            if not quiet:
                say(f"{name.replace('_', ' ')}, {codes.TITLES[code]} …")
            try:
                with raise_signals():
                    rows.append(codes.measure(name, code, sys.executable if code == "polhode" else peers))
            except codes.FailedError as error:
                failures.append(str(error))
                say(str(error))
    return rows, failures


def _case_names(models: list[str]) -> list[str]:
    from polhode.cli.peers import CASES

    for name in models:
        if name.replace("-", "_") not in CASES:
            names = ", ".join(each.replace("_", "-") for each in CASES)
            raise ValueError(f"There is no benchmark {short_repr(name)}; there are {names}.")
    return [name.replace("-", "_") for name in models] or list(CASES)
