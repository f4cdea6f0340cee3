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
from polhode.viewing.page.server import Server

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def blocks(page: Path, language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def told(page: Path) -> list[tuple[str, str]]:
    """Blocks of Python, each with the block of text behind it, which says what it prints, or an empty one."""
    pattern = r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?"
    return re.findall(pattern, page.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


def same(printed: str, expected: str) -> bool:
    """Whether words agree, and numbers to one unit of the last digit that is shown, or all but vanish."""
    number = re.compile(r"[-+]?\d+(?:\.(\d+))?(?:e([-+]?\d+))?")
    if number.sub("#", printed).split() != number.sub("#", expected).split():
        return False
    pairs = zip(number.finditer(printed), number.finditer(expected), strict=True)
    return all(
        max(abs(float(a[0])), abs(float(b[0]))) < 1e-9
        or abs(float(a[0]) - float(b[0])) < 1.01 * 10.0 ** (int(b[2] or 0) - len(b[1] or ""))
        for a, b in pairs
    )


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
    "docs/audit",
    "docs/choose",
    "docs/contact",
    "docs/events",
    "docs/extend",
    "docs/import",
    "docs/models",
    "docs/results",
    "docs/start",
    "how-to/code",
    "how-to/gradients",
    "how-to/linearise",
    "how-to/sweep",
    "tutorials/cable",
    "tutorials/ensemble",
    "tutorials/four-bar",
    "tutorials/grasping",
    "tutorials/hopper",
    "tutorials/identification",
    "tutorials/long-times",
    "tutorials/ring",
    "tutorials/spaghetti",
    "tutorials/walking",
}
"""Pages that take several seconds."""


def cases(language: str) -> list[Any]:
    """Pages with blocks in a language; those on theory change little."""
    marks = {True: [pytest.mark.exhaustive], False: []}
    return [
        pytest.param(page, id=name(page), marks=marks[page.parent.name == "theory" or place(page) in LONG])
        for page in PAGES
        if blocks(page, language)
    ]


@pytest.mark.parametrize("page", cases("python"))
def test_python_blocks_run_in_order(page: Path, workplace: Path, capsys: pytest.CaptureFixture[str]) -> None:
    namespace: dict[str, object] = {"__name__": "__main__"}
    for i, (block, expected) in enumerate(told(page)):
        exec(compile(block, f"{name(page)}, block {i + 1}", "exec"), namespace)
        printed = capsys.readouterr().out
        # What tutorials print is written by `docs/write_tutorials.py`.
        assert same(printed, expected) or not (expected or page.parent.name == "tutorials"), (printed, expected)


def test_numbers_are_compared_to_the_last_digit_shown() -> None:
    assert same("sag 2.6593 m\n", "sag 2.6594 m")
    assert not same("sag 2.6593 m", "sag 2.6595 m")
    assert not same("sag 2.6593 m", "sag 2.6593 mm")
    assert same("-3.1e-13 kept", "+2.0e-12 kept")
    assert not same("2.0e-02 kept", "2.2e-02 kept")
    assert not same("1 2", "1")


@pytest.mark.exhaustive
@pytest.mark.parametrize("page", [page for page in PAGES if commands(page)], ids=name)
def test_commands_end_well(page: Path, workplace: Path) -> None:
    for arguments in commands(page):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, (arguments, result.output, result.stderr, result.exception)


def test_the_tests_behind_promises_exist() -> None:
    lines = (ROOT / "docs" / "promised.md").read_text(encoding="utf-8").splitlines()
    rows = [line for line in lines if line.startswith("| ") and not line.startswith("| promise |")]
    for row in rows:
        named = re.findall(r"`([\w/]+(?:\.py)?)`", row.rstrip(" |").rpartition("|")[2])
        assert named, row
        assert all((ROOT / path).exists() for path in named), row


def test_the_pages_have_examples() -> None:
    assert {place(page) for page in PAGES} >= LONG
    assert sum(len(blocks(page, "python")) for page in PAGES) >= 10
    assert len(commands(ROOT / "docs" / "command.md")) >= 10
