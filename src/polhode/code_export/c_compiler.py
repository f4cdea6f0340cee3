"""The C compiler of the system."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
from pathlib import Path

OPTIONS = ("-std=c99", "-O2", "-ffp-contract=off", "-fPIC", "-shared")


class CompilerError(RuntimeError):
    """The C compiler has failed; the message holds what it said."""


def find() -> str:
    """The command of the C compiler: `CC` of the environment, else `cc`. Raises ValueError if there is none."""
    command = os.environ.get("CC") or "cc"
    if shutil.which(shlex.split(command)[0]) is None:
        raise ValueError(
            f"There is no C compiler `{command}` to make a library. Install one or set CC, or write the source: a path "
            "that ends in .c."
        )
    return command


def make_library(command: str, source: Path, target: Path) -> None:
    """Compiles a file to a shared library. Raises `CompilerError`."""
    call = [*shlex.split(command), *OPTIONS, str(source), "-o", str(target), "-lm"]
    done = subprocess.run(call, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CompilerError(f"`{shlex.join(call)}` failed:\n{done.stderr[-2000:]}")
