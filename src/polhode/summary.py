"""Tables that summarise an object, for terminals and notebooks."""

from __future__ import annotations

import html as _html
from collections.abc import Collection, Sequence


def html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A title and a table with a name and a text in each row, as HTML."""
    body = "".join(
        f"<tr><th style='text-align:left'>{_html.escape(what)}</th>"
        f"<td style='text-align:left'>{_html.escape(text)}</td></tr>"
        for what, text in rows
    )
    return f"<strong>{_html.escape(title)}</strong><table>{body}</table>"


def lines(rows: Sequence[Sequence[str]], numbers: Collection[int] = ()) -> list[str]:
    """A table as lines of text, headings first; the columns `numbers` are aligned to the right."""
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.rjust(width) if k in numbers else cell.ljust(width)
            for k, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def html_table(title: str, rows: Sequence[Sequence[str]], remarks: Sequence[str] = ()) -> str:
    """A title and a table with headings as HTML, with remarks below."""
    head, *rest = (
        "".join(f"<{tag}>{_html.escape(cell)}</{tag}>" for cell in row)
        for tag, row in zip(("th", *("td" for _ in rows[1:])), rows, strict=True)
    )
    body = "".join(f"<tr>{row}</tr>" for row in rest)
    below = "".join(f"<p>{_html.escape(text)}</p>" for text in remarks)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"
    return f"<strong>{_html.escape(title)}</strong>{table}{below}"
