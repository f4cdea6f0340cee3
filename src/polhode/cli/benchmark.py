"""`polhode benchmark`: the same models by the codes that are installed, side by side."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from polhode.checks import shown
from polhode.cli.output import FAILED, Json, Quiet, emit, fail, say, usage_errors


def benchmark(
    models: Annotated[list[str] | None, typer.Argument(metavar="[MODEL]…", help="Which [default: all].")] = None,
    peers: Annotated[
        str, typer.Option(metavar="PYTHON", help="The Python that has the other codes [default: this one].")
    ] = sys.executable,
    write: Annotated[
        Path | None, typer.Option(metavar="FILE.md", help="Put the table into this file instead of printing it.")
    ] = None,
    as_json: Json = False,
    quiet: Quiet = False,
) -> None:
    """Run the same models by polhode and by the codes that are installed: accuracy, time, memory.

    Each line is a process of its own, one at a time.
    """
    from polhode.cli import peers as codes

    with usage_errors():
        chosen = _chosen(models or [])
        _check_file(write)
        if not codes.folder().is_dir():
            raise ValueError(f"The scripts are not in {codes.folder()}: install polhode from a wheel or a checkout.")
    versions = {"polhode": codes.installed(sys.executable, "polhode"), "JAX": codes.installed(sys.executable, "jax")}
    others = dict.fromkeys(code for name in chosen for code in codes.CASES[name].codes)
    versions |= {code: codes.installed(peers, code) for code in others}
    missing = [code for code in others if versions[code] is None]
    if missing and not quiet:
        titles = ", ".join(codes.TITLES[code] for code in missing)
        wanted = " ".join(codes.NEEDED.get(code, code) for code in missing)
        say(f"Not installed, and left out: {titles}. `pip install {wanted}`")
    rows, failed = [], []
    for name in chosen:
        for code in ("polhode", *codes.CASES[name].codes):
            if code in missing:
                continue
            if not quiet:
                say(f"{name.replace('_', ' ')}, {codes.TITLES[code]} …")
            try:
                rows.append(codes.measured(name, code, sys.executable if code == "polhode" else peers))
            except codes.FailedError as error:
                failed.append(str(error))
                say(str(error))
    known = {code: version for code, version in versions.items() if version is not None}
    if as_json:
        emit({"rows": [row._asdict() for row in rows], "versions": known, "missing": missing, "failed": failed})
    elif write is None:
        print("\n".join([*codes.table(rows), "", codes.machine(known)]))
    if write is not None:
        try:
            write.write_text("\n".join([*codes.table(rows), "", codes.machine(known), ""]), encoding="utf-8")
        except OSError as error:
            fail(f"`{write}` can't be written: {error}.", FAILED)
        say(f"table written to {write}")
    if failed:
        raise typer.Exit(FAILED)


def _check_file(write: Path | None) -> None:
    from polhode.cli.peers import HEADS

    if write is not None and write.is_file() and not write.read_text(encoding="utf-8").startswith(f"| {HEADS[0]} |"):
        raise ValueError(f"`{write}` has something else in it, which the table would replace. Name another file.")


def _chosen(models: list[str]) -> list[str]:
    from polhode.cli.peers import CASES

    for name in models:
        if name.replace("-", "_") not in CASES:
            known = ", ".join(each.replace("_", "-") for each in CASES)
            raise ValueError(f"There is no benchmark {shown(name)}; there are {known}.")
    return [name.replace("-", "_") for name in models] or list(CASES)
