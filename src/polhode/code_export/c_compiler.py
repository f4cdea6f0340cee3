"""The C compiler of the system."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

OPTIONS = ("-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared")


class CompilerError(RuntimeError):
    """The C compiler has failed; the message holds what it said."""


def find() -> str | None:
    """The command of the C compiler: `CC` of the environment, else `cc`; None if there is none."""
    command = _command()
    return command if shutil.which(_words(command)[0]) else None


def require() -> str:
    """The command of the C compiler. Raises ValueError if there is none."""
    command = find()
    if command is None:
        raise ValueError(
            f"There is no C compiler `{_command()}` to make a library. Install one or set CC, or write the source: a "
            "path that ends in .c."
        )
    return command


def _command() -> str:
    return os.environ.get("CC", "").strip() or "cc"


def _words(command: str) -> list[str]:
    """The words of a command, as a shell reads them. Raises ValueError for an open quotation."""
    try:
        return shlex.split(command)
    except ValueError as reason:
        raise ValueError(f"CC of the environment is no command, got {command!r}: {reason}.") from None


def make_library(command: str, sources: Sequence[str], target: str | Path, folder: Path, *options: str) -> None:
    """Compiles files of a folder to a shared library; without the name of the folder in it. Raises `CompilerError`."""
    call = [*_words(command), *OPTIONS, *options, *sources, "-o", str(target), "-lm"]
    done = subprocess.run(call, capture_output=True, text=True, check=False, cwd=folder)
    if done.returncode:
        raise CompilerError(f"`{shlex.join(call)}` failed:\n{done.stderr[-2000:]}")
