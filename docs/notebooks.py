"""Tutorials as notebooks: `python THIS [FOLDER]` writes them, and every build of the site has them beside their pages.

`python THIS --quickstart` writes `quickstart.ipynb` at the top of the repository again, without results.

The page is the source. Blocks of Python become cells of code, a block of text behind one becomes its output, as does
the picture that it saves; `write_tutorials.py` writes both. All else becomes cells of text. Links to other pages become
plain words: a downloaded notebook has no pages beside it.
"""

from __future__ import annotations

import base64
import re
import sys
from itertools import zip_longest
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).resolve().parent / "tutorials"
QUICKSTART = FOLDER.parent / "quickstart.md", FOLDER.parents[1] / "quickstart.ipynb"
"""The page, and its notebook at the top."""

BLOCK = re.compile(r"^```python\n(.*?)^```$(?:\n\n^```text\n(.*?)^```$)?", re.DOTALL | re.MULTILINE)
"""A block of Python, and what it prints."""

SAVED = re.compile(r"savefig\(\"([^\"]+)\"\)")
PICTURE = re.compile(r"^!\[[^]]*\]\([^)]*\)\n?", re.MULTILINE)
LINK = re.compile(r"\[([^]]*)\]\((?!https?:)[^)]*\)")


def pages() -> list[Path]:
    """Every tutorial but the list of them."""
    return sorted(page for page in FOLDER.glob("*.md") if page.stem != "index")


def notebook(text: str, results: bool = True) -> nbformat.NotebookNode:
    """The notebook of a page. Cells are numbered, so that the same page makes the same file."""
    # A pattern with two groups splits into text, code, what it prints, text, …
    words, code, printed = (BLOCK.split(text)[k::3] for k in range(3))
    cells = []
    for before, block, text_output in zip_longest(words, code, printed):
        source = LINK.sub(r"\1", PICTURE.sub("", before)).strip()
        if source:
            cells.append(nbformat.v4.new_markdown_cell(source))
        if block:
            cells.append(
                nbformat.v4.new_code_cell(block.strip("\n"), outputs=outputs(block, text_output) if results else [])
            )
    for count, cell in enumerate(cells):
        cell.id = f"cell-{count}"
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def outputs(block: str, printed: str | None) -> list[nbformat.NotebookNode]:
    """What a cell has printed, and the picture that it saves where there is one."""
    cells = [nbformat.v4.new_output("stream", name="stdout", text=printed)] if printed else []
    for name in SAVED.findall(block):
        if (picture := FOLDER / name).exists():
            data = base64.b64encode(picture.read_bytes()).decode()
            cells.append(nbformat.v4.new_output("display_data", data={"image/png": data}))
    return cells


def notebook_text(page: Path, results: bool = True) -> str:
    """The file of a page's notebook."""
    return nbformat.writes(notebook(page.read_text(encoding="utf-8"), results)) + "\n"


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Adds the notebooks to what MkDocs writes."""
    for page in pages():
        files.append(File.generated(config, f"tutorials/{page.stem}.ipynb", content=notebook_text(page)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Puts the link to its notebook under the question of a tutorial."""
    source = Path(page.file.abs_src_path or "")
    if source not in pages():
        return markdown
    link = f"[Download this page as a notebook]({source.stem}.ipynb){{ .md-button download }}"
    return BLOCK.sub(lambda first: f"{link}\n\n{first[0]}", markdown, count=1)


if __name__ == "__main__":
    if sys.argv[1:] == ["--quickstart"]:
        QUICKSTART[1].write_text(notebook_text(QUICKSTART[0], results=False), encoding="utf-8")
        sys.exit()
    target = Path(sys.argv[1] if sys.argv[1:] else ".")
    target.mkdir(parents=True, exist_ok=True)
    for page in pages():
        target.joinpath(f"{page.stem}.ipynb").write_text(notebook_text(page), encoding="utf-8")
        print(page.stem, flush=True)
