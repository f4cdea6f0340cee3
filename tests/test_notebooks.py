"""Notebooks are the pages of the tutorials in another form."""

from __future__ import annotations

import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace

import nbformat
import pytest

ROOT = Path(__file__).parents[1]
_found = importlib.util.spec_from_file_location("notebooks", ROOT / "docs" / "notebooks.py")
assert _found is not None
assert _found.loader is not None
notebooks = importlib.util.module_from_spec(_found)
_found.loader.exec_module(notebooks)

PAGES = notebooks.pages()


def sources(book: nbformat.NotebookNode, kind: str) -> list[str]:
    return [cell.source for cell in book.cells if cell.cell_type == kind]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_cells_are_the_blocks_of_the_page(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    book = nbformat.reads(notebooks.notebook_text(page), as_version=4)
    nbformat.validate(book)
    lines, blocks, block = text.splitlines(), [], None
    # Read line by line, unlike the script.
    for line in lines:
        if block is not None and line == "```":
            blocks.append("\n".join(block))
            block = None
        elif block is not None:
            block.append(line)
        elif line == "```python":
            block = []
    assert sources(book, "code") == blocks
    printed = re.findall(r"^```text\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert [output.text for output in outputs if output.output_type == "stream"] == printed
    assert len(outputs) == len(printed) + len(list(page.parent.glob(f"{page.stem}.png")))
    words = "\n".join(sources(book, "markdown"))
    assert words.startswith("# ")
    assert "```" not in words
    assert re.findall(r"\]\((?!https?:)", words) == []
    headings = [line for line in lines if line.startswith("## ")]
    assert [line for line in words.splitlines() if line.startswith("## ")] == headings
    assert notebooks.notebook_text(page) == notebooks.notebook_text(page)


def test_pages_link_to_their_notebooks() -> None:
    text = PAGES[0].read_text(encoding="utf-8")
    page, other = (SimpleNamespace(file=SimpleNamespace(abs_src_path=str(path))) for path in (PAGES[0], __file__))
    shown = notebooks.on_page_markdown(text, page=page)
    assert shown.index(f"({PAGES[0].stem}.ipynb)") < shown.index("```python")
    assert notebooks.on_page_markdown(text, page=other) == text


def test_every_tutorial_is_in_the_list_and_in_the_navigation() -> None:
    listed = (ROOT / "docs" / "tutorials" / "index.md").read_text(encoding="utf-8")
    navigation = (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert len(PAGES) >= 9
    for page in PAGES:
        assert f"({page.name})" in listed
        assert f"tutorials/{page.name}\n" in navigation


@pytest.mark.exhaustive
def test_a_notebook_runs_in_a_kernel_of_its_own(tmp_path: Path) -> None:
    """One is enough: the code of all is that of their pages, which `test_docs.py` runs with every change."""
    from nbclient import NotebookClient

    book = notebooks.notebook((ROOT / "docs" / "tutorials" / "tumbling.md").read_text(encoding="utf-8"))
    NotebookClient(book, timeout=300, kernel_name="python3", resources={"metadata": {"path": str(tmp_path)}}).execute()
    outputs = [output for cell in book.cells if cell.cell_type == "code" for output in cell.outputs]
    assert any(output.get("text", "").startswith("growth 0.577") for output in outputs)
    assert any("image/png" in output.get("data", {}) for output in outputs)
    assert (tmp_path / "tumbling.png").stat().st_size > 10_000
