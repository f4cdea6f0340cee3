"""Tutorials as notebooks: `python THIS [FOLDER]` writes them, and every build of the site has them beside their pages.

The page is the source: blocks of Python become cells of code, what stands between them cells of text. Pictures are left
out, for the cells draw them. Links to other pages become plain words: a downloaded notebook has no pages beside it.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import nbformat
from mkdocs.structure.files import File, Files

FOLDER = Path(__file__).resolve().parent / "tutorials"
BLOCK = re.compile(r"^```python\n(.*?)^```$", re.DOTALL | re.MULTILINE)
PICTURE = re.compile(r"^!\[[^]]*\]\([^)]*\)\n?", re.MULTILINE)
LINK = re.compile(r"\[([^]]*)\]\((?!https?:)[^)]*\)")


def pages() -> list[Path]:
    """Every tutorial but the list of them."""
    return sorted(page for page in FOLDER.glob("*.md") if page.stem != "index")


def notebook(text: str) -> nbformat.NotebookNode:
    """The notebook of a page. Cells are numbered, so that the same page makes the same file."""
    cells = []
    # A pattern with one group splits into text, code, text, …
    for i, part in enumerate(BLOCK.split(text)):
        is_code = i % 2 == 1
        source = part.strip("\n") if is_code else LINK.sub(r"\1", PICTURE.sub("", part)).strip()
        if source:
            cell = nbformat.v4.new_code_cell(source) if is_code else nbformat.v4.new_markdown_cell(source)
            cell.id = f"cell-{len(cells)}"
            cells.append(cell)
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    return nbformat.v4.new_notebook(cells=cells, metadata={"kernelspec": kernel, "language_info": {"name": "python"}})


def written(page: Path) -> str:
    """The file of a page's notebook."""
    return nbformat.writes(notebook(page.read_text(encoding="utf-8"))) + "\n"


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Adds the notebooks to what MkDocs writes."""
    for page in pages():
        files.append(File.generated(config, f"tutorials/{page.stem}.ipynb", content=written(page)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Puts the link to its notebook under the question of a tutorial."""
    source = Path(page.file.abs_src_path or "")
    if source not in pages():
        return markdown
    link = f"[Download this page as a notebook]({source.stem}.ipynb){{ .md-button download }}"
    return BLOCK.sub(lambda first: f"{link}\n\n{first[0]}", markdown, count=1)


if __name__ == "__main__":
    target = Path(sys.argv[1] if sys.argv[1:] else ".")
    target.mkdir(parents=True, exist_ok=True)
    for page in pages():
        target.joinpath(f"{page.stem}.ipynb").write_text(written(page), encoding="utf-8")
        print(page.stem, flush=True)
