"""`polhode cache`: the cache of compiled programs."""

from __future__ import annotations

from typing import Annotated

import typer

from polhode.cli.output import RUN_FAILED, Json, emit, fail, show


def cache(
    clear: Annotated[bool, typer.Option("--clear", help="Delete all that is kept.")] = False,
    keep: Annotated[
        bool | None, typer.Option("--on/--off", help="Whether programs are kept from now on; they are by default.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Show what is kept of compiled programs, so that the next process begins sooner, or clear it."""
    from polhode.compiler.cache import disk_cache

    before = disk_cache.sizes() if clear else []
    try:
        if keep is not None:
            disk_cache.switch(keep)
        if clear:
            disk_cache.clear()
    except OSError as error:
        fail(f"The folder `{disk_cache.folder().parent}` can't be changed: {error}.", RUN_FAILED)
    sizes = disk_cache.sizes()
    size, count = sum(sizes), len(sizes)
    deleted_count = len(before) - count
    if as_json:
        deleted = {"deleted": deleted_count} if clear else {}
        because = {"because": disk_cache.objection()} if disk_cache.objection() else {}
        report = {"folder": str(disk_cache.folder()), "on": disk_cache.is_on(), "programs": count, "bytes": size}
        emit({**report, **deleted, **because})
        return
    off = "" if disk_cache.is_on() else f" {_because(disk_cache.objection())}: none is used, none is added."
    if clear:
        show(f"Deleted {_programs(deleted_count)}, {_amount(sum(before) - size)}.")
    show(f"{disk_cache.folder()}: {_programs(count)}, {_amount(size)} of at most {_amount(disk_cache.LARGEST)}.{off}")


def _because(objection: str) -> str:
    return f"Not trusted, because {objection}" if objection else "Switched off"


def _programs(count: int) -> str:
    return f"{count} program{'' if count == 1 else 's'}"


def _amount(size: int) -> str:
    """A size in kB or MB, rounded up."""
    if size < 1_000_000:
        return f"{-(-size // 1000)} kB"
    return f"{size / 1e6:.1f}".removesuffix(".0") + " MB"
