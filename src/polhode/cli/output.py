"""Output of all commands: results on standard output, messages on standard error, exit statuses."""

from __future__ import annotations

import contextlib
import json
import sys
import warnings
from collections.abc import Generator
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from polhode.checks import short_repr
from polhode.printable import printable

if TYPE_CHECKING:
    from rich.console import Console

RUN_FAILED = 1
WRONG_USAGE = 2

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object and nothing else on standard output.")]
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="No progress and no tables; errors are still shown.")]
WhenFull = Annotated[
    str,
    typer.Option(
        metavar="fail|wait|PATH",
        help="When the disk of the store is full: end the run, wait for space, or go on in another place.",
    ),
]


def say(text: str) -> None:
    """Prints a message on standard error."""
    print(printable(text), file=sys.stderr, flush=True)


def show(text: str) -> None:
    """Prints a line of results on standard output."""
    print(printable(text))


def console(*, stderr: bool = False) -> Console:
    """The console for tables, which escapes control characters."""
    from polhode.console import Printable

    return Printable(stderr=stderr)


_format_warning = warnings.formatwarning


def format_warning(message: Any, category: type[Warning], filename: str, lineno: int, line: str | None = None) -> str:
    """A warning as a line of text; those of the library without their position in the source."""
    if category.__module__.partition(".")[0] == "polhode":
        return f"polhode: {printable(str(message))}\n"
    return _format_warning(message, category, filename, lineno, line)


@contextlib.contextmanager
def status_line(text: str, show: bool) -> Generator[None]:
    """Shows a status line on standard error within the context, if that is a terminal."""
    if not show or not sys.stderr.isatty():
        yield
        return
    with console(stderr=True).status(text):
        yield


def fail(message: str, status: int) -> NoReturn:
    """Ends the command with a message on standard error."""
    say(f"polhode: {message}")
    raise typer.Exit(status)


def emit(value: Any) -> None:
    """Prints one JSON object on standard output, with "NaN", "Infinity" and "-Infinity" as strings."""
    from polhode.json_values import to_plain

    print(json.dumps(to_plain(value), allow_nan=False))


@contextlib.contextmanager
def usage_errors() -> Generator[None]:
    """Turns a ValueError, which the library raises for wrong input, into exit status 2."""
    try:
        yield
    except ValueError as error:
        fail(str(error), WRONG_USAGE)


@contextlib.contextmanager
def interruptions_reported() -> Generator[None]:
    """Suppresses warnings of interrupted runs, which the command reports itself."""
    import polhode as ph

    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ph.InterruptionWarning)
        yield


@contextlib.contextmanager
def file_errors() -> Generator[None]:
    """Turns an OSError, also of damaged, missing and full stores, into exit status 1.

    An occupied place is wrong usage, with status 2 like a ValueError.
    """
    try:
        yield
    except OSError as error:
        fail(str(error), WRONG_USAGE if isinstance(error, ValueError) else RUN_FAILED)


def parse_settings(settings: list[str] | None, flag: str = "--set") -> dict[str, Any]:
    """Values of `--set key=value`: numbers, JSON, otherwise strings."""
    values: dict[str, Any] = {}
    for argument in settings or []:
        key, equals, text = argument.partition("=")
        if not equals or not key.strip():
            raise ValueError(f"`{flag}` takes KEY=VALUE, got {short_repr(argument)}.")
        if key.strip() in values:
            raise ValueError(f"`{flag} {key.strip()}=…` is given twice.")
        values[key.strip()] = _value(text.strip())
    return values


def _value(text: str) -> Any:
    for parse in (json.loads, float):
        # Deeply nested brackets raise RecursionError and stay a string.
        with contextlib.suppress(ValueError, RecursionError):
            return parse(text)
    return text


def number(value: Any) -> str:
    """A number, or a nested list of them, short enough for a table."""
    match value:
        case float():
            return f"{value:.10g}"
        case list():
            return "[" + ", ".join(number(item) for item in value) + "]"
        case dict():
            return ", ".join(f"{key} {number(item)}" for key, item in value.items())
        case _:
            return str(value)
