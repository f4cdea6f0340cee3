"""`polhode cite`: sources of a method, a problem or an experiment."""

from __future__ import annotations

from typing import Annotated

import typer

from polhode.cli.output import Json, emit, show, usage_errors


def cite(
    name: Annotated[
        str | None,
        typer.Argument(metavar="[NAME]", help="An integrator, a problem or an experiment; without it, polhode itself."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print what a method, a problem or an experiment comes from, as BibTeX."""
    from polhode import references

    with usage_errors():
        keys = references.keys(name)
    text = references.bibtex(keys)
    if as_json:
        emit({"name": name, "keys": list(keys), "bibtex": text})
    else:
        for line in text.splitlines():
            show(line)
