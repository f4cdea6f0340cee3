"""Short tables of what an object is, for notebooks."""

from __future__ import annotations

import html as _html
from collections.abc import Sequence


def html(title: str, rows: Sequence[tuple[str, str]]) -> str:
    """A title and a table with a name and a text in each row, as HTML."""
    body = "".join(
        f"<tr><th style='text-align:left'>{_html.escape(what)}</th>"
        f"<td style='text-align:left'>{_html.escape(text)}</td></tr>"
        for what, text in rows
    )
    return f"<strong>{_html.escape(title)}</strong><table>{body}</table>"
