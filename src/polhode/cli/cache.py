"""`polhode cache`: what is kept between processes."""

from __future__ import annotations

from typing import Annotated

import typer

from polhode.cli.output import FAILED, Json, emit, fail, show


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all that is kept.")] = False,
    keep: Annotated[
        bool | None, typer.Option("--on/--off", help="Whether programs are kept from now on; they are by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what is kept of compiled programs, so that the next process begins sooner, or clear it."""
    from polhode.execution import kept

    before = kept.sizes() if clear else []
    try:
        if keep is not None:
            kept.switch(keep)
        if clear:
            kept.clear()
    except OSError as error:
        fail(f"The folder `{kept.folder().parent}` can't be changed: {error}.", FAILED)
    sizes = kept.sizes()
    size, count = sum(sizes), len(sizes)
    gone = len(before) - count
    if as_json:
        deleted = {"deleted": gone} if clear else {}
        because = {"because": kept.objection()} if kept.objection() else {}
        told = {"folder": str(kept.folder()), "on": kept.is_on(), "programs": count, "bytes": size}
        emit({**told, **deleted, **because})
        return
    off = "" if kept.is_on() else f" {_because(kept.objection())}: none is used, none is added."
    if clear:
        show(f"Deleted {_programs(gone)}, {_amount(sum(before) - size)}.")
    show(f"{kept.folder()}: {_programs(count)}, {_amount(size)} of at most {_amount(kept.LARGEST)}.{off}")


def _because(objection: str) -> str:
    return f"Not trusted, because {objection}" if objection else "Switched off"


def _programs(count: int) -> str:
    return f"{count} program{'' if count == 1 else 's'}"


def _amount(size: int) -> str:
    """Bytes in words; never less than there are."""
    if size < 1_000_000:
        return f"{-(-size // 1000)} kB"
    return f"{size / 1e6:.1f}".removesuffix(".0") + " MB"
