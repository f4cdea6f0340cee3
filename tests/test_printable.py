"""Characters that a terminal would obey are shown; all others stay."""

from __future__ import annotations

import io

import pytest
from rich.table import Table

from polhode.console import Printable
from polhode.printable import printable


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\x1b[2Jb", r"a\x1b[2Jb"),
        ("\u202ecod.exe", r"\u202ecod.exe"),
        ("\x9b31m", r"\x9b31m"),
        ("\udc80", r"\udc80"),
        ("line\nnext\ttab", "line\nnext\ttab"),
        ("ω̃ · 脚 µs … 🛰", "ω̃ · 脚 µs … 🛰"),
    ],
)
def test_only_what_is_obeyed_is_escaped(text, shown):
    assert printable(text) == shown


def test_tables_keep_their_own_colours_only():
    file = io.StringIO()
    table = Table("name")
    table.add_row("[bold]a\x1b[31mb\u202e[/]")
    Printable(file=file, force_terminal=True, width=60).print(table)
    text = file.getvalue()
    assert r"a\x1b[31mb\u202e" in text
    assert "\x1b[1m" in text
    assert "\x1b[31m" not in text
