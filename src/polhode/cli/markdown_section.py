"""A section of a Markdown file between two comments, which a command replaces."""

from __future__ import annotations

from pathlib import Path

from polhode.replacement import replacement


def marks(name: str) -> tuple[str, str]:
    """The comments before and after the section; pages can include it as a snippet."""
    return f"<!-- --8<-- [start:{name}] -->", f"<!-- --8<-- [end:{name}] -->"


def parts(path: Path, name: str) -> tuple[str, str]:
    """The text before and after a section, including its marks; only the marks if there is no file yet.

    Raises ValueError where the file doesn't have each of the marks once, in this order.
    """
    start, end = marks(name)
    text = path.read_text(encoding="utf-8") if path.exists() else f"{start}\n{end}\n"
    if text.count(start) != 1 or text.count(end) != 1 or text.index(start) > text.index(end):
        raise ValueError(
            f"`{path}` doesn't say where the table goes. Put these two lines there, once each:\n{start}\n{end}"
        )
    return text[: text.index(start)] + start, text[text.index(end) :]


def write(path: Path, name: str, lines: list[str]) -> None:
    """Replace the lines of a section. Raises ValueError as `parts` does, and OSError."""
    before, after = parts(path, name)
    with replacement(path) as part:
        part.write_text("\n".join([before, *lines, after]), encoding="utf-8")
