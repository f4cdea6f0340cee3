"""The examples of the README and the documentation run as they are printed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import matplotlib
import pytest
from typer.testing import CliRunner

from polhode.cli import app
from polhode.multibody.formulations import FORMULATIONS
from polhode.problems import registry
from polhode.viewing.server import Server

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def name(page: Path) -> str:
    return str(page.relative_to(ROOT))


def place(page: Path) -> str:
    return f"{page.parent.name}/{page.stem}"


def commands(page: Path) -> list[list[str]]:
    lines = "".join(blocks(page, "sh")).splitlines()
    return [shlex.split(line, comments=True)[1:] for line in lines if line.startswith("polhode ")]


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty folder, and registries that forget what a page adds to them."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(registry, "_BUILDERS", dict(registry._BUILDERS))
    matplotlib.use("agg")
    # Pages are served, but nobody looks at them until Ctrl-C.
    monkeypatch.setattr(Server, "wait", lambda self: None)
    monkeypatch.setattr("webbrowser.open", lambda url: True)
    known = dict(FORMULATIONS)
    yield tmp_path
    # Others hold this very dictionary.
    FORMULATIONS.clear()
    FORMULATIONS.update(known)


LONG = {
    "docs/events",
    "docs/extend",
    "docs/models",
    "docs/results",
    "how-to/gradients",
    "how-to/linearise",
}
"""Pages that take several seconds. Tutorials, which notebooks are made of, always run."""


def cases(language: str) -> list[Any]:
    """Pages with blocks in a language; those on theory change little."""
    marks = {True: [pytest.mark.exhaustive], False: []}
    return [
        pytest.param(page, id=name(page), marks=marks[page.parent.name == "theory" or place(page) in LONG])
        for page in PAGES
        if blocks(page, language)
    ]


@pytest.mark.parametrize("page", cases("python"))
def test_python_blocks_run_in_order(page: Path, workplace: Path) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for i, block in enumerate(blocks(page, "python")):
        exec(compile(block, f"{name(page)}, block {i + 1}", "exec"), namespace)


@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_end_well(page: Path, workplace: Path) -> None:
    for arguments in commands(page):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (arguments, result.output, result.stderr, result.exception)


def test_the_pages_have_examples() -> None:
    assert {place(page) for page in PAGES} >= LONG
    assert not any(each.startswith("tutorials/") for each in LONG)
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 10
    assert len(commands(ROOT / "docs" / "command.md")) >= 10
