"""`polhode cache`: what is kept between processes."""

from __future__ import annotations

from typing import Annotated

import typer

from polhode.cli.output import Json, emit


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all that is kept.")] = False,
    keep: Annotated[
        bool | None, typer.Option("--on/--off", help="Whether programs are kept from now on; they are by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what is kept of compiled programs, so that the next process begins sooner, or clear it."""
    from polhode.execution import kept

    if keep is not None:
        kept.switch(keep)
    if clear:
        kept.clear()
    files = kept.files()
    size = sum(path.stat().st_size for path in files)
    if as_json:
        emit({"folder": str(kept.folder()), "on": kept.is_on(), "programs": len(files), "bytes": size})
        return
    off = "" if kept.is_on() else " Nothing is kept: it is switched off."
    print(f"{kept.folder()}: {len(files)} programs, {size / 1e6:.1f} of at most {kept.LARGEST / 1e6:.0f} MB.{off}")
