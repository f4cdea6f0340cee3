"""Standard streams of the command, which may be closed, full, broken, or of any encoding."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import Any


class OutputError(Exception):
    """Standard output can't be written."""


def complete() -> None:
    """Open the null device for standard streams that are closed.

    Otherwise the next file that is opened gets their number, and output is written to it. Writing to a closed
    standard output is an error.
    """
    for number, mode in enumerate((os.O_RDONLY, os.O_RDONLY, os.O_WRONLY)):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, mode)


def prepare() -> None:
    """Escape characters that the encoding of a stream lacks, and turn errors of writing into OutputError."""
    sys.stdin = sys.stdin or open(0, encoding="utf-8", closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = _rewrap(sys.stdout, 1, _Output)
    sys.stderr = sys.__stderr__ = _rewrap(sys.stderr, 2, _Messages)


def abandon() -> None:
    """Discard what standard output has not accepted."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


def _rewrap(stream: Any, number: int, kind: type[io.TextIOWrapper]) -> Any:
    if stream is None:
        stream = open(number, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    encoding, lines = stream.encoding, stream.line_buffering
    return kind(stream.detach(), encoding=encoding, errors="backslashreplace", line_buffering=lines)


class _Output(io.TextIOWrapper):
    """Standard output. Raises OutputError where it can't be written."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError as error:
            raise OutputError(_why(error)) from error

    def flush(self) -> None:
        try:
            super().flush()
        except OSError as error:
            raise OutputError(_why(error)) from error


class _Messages(io.TextIOWrapper):
    """Standard error. Errors of writing are ignored."""

    def write(self, text: str) -> int:
        with contextlib.suppress(OSError):
            super().write(text)
        return len(text)

    def flush(self) -> None:
        with contextlib.suppress(OSError):
            super().flush()


def _why(error: OSError) -> str:
    return f"standard output can't be written: {error.strerror or error}. What was computed is kept."
