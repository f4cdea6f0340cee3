"""Help texts say what their sources say, in every command and option."""

from __future__ import annotations

import re

import pytest
import typer
from typer.testing import CliRunner

from polhode.cli import app

COMMANDS = typer.main.get_command(app).commands


def bare(text: str) -> str:
    """A text without what tables and line breaks put in."""
    return re.sub(r"[\s│─╭╮╰╯…]+", "", text)


@pytest.mark.parametrize("name", [None, *COMMANDS])
def test_no_word_of_a_help_text_is_lost(name, monkeypatch):
    monkeypatch.setenv("COLUMNS", "300")
    monkeypatch.setenv("TERMINAL_WIDTH", "300")
    words = CliRunner().invoke(app, [name, "--help"] if name else ["--help"], color=False)
    assert words.exit_code == 0
    command = COMMANDS[name] if name else typer.main.get_command(app)
    texts = [command.help, command.epilog, *(getattr(each, "help", None) for each in command.params)]
    texts += [] if name else [each.get_short_help_str(300) for each in COMMANDS.values()]
    shown = bare(words.stdout)
    lost = [text for text in texts if text and bare(text) not in shown]
    assert not lost, words.stdout
    assert all(each.help for each in command.params)
    assert all(bare(each.metavar) in shown for each in command.params if each.metavar)
