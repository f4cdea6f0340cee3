"""Pages of the root that the site has as well, with the size of the source as it is when the site is built.

`ARCHITECTURE.md` and `CONTRIBUTING.md` stand where a repository is expected to have them. Links between them and the
pages of `docs/` are those of files; here they become links of the site, or plain words where it has no such page.
"""

from __future__ import annotations

import importlib.util
import posixpath
import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

ROOT = Path(__file__).resolve().parents[1]
PAGES = {
    "ARCHITECTURE.md": "architecture.md",
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changes.md",
}
"""Files of the root, and the pages that they are in the site."""

SOURCES = ("ARCHITECTURE.md", "CONTRIBUTING.md")
"""Those of them that become pages here; `docs/changes.md` includes its file."""

LINK = re.compile(r"(?<!!)\[([^]]*)\]\(([^)\s]+)\)")
NUMBERS = "<!-- numbers -->"


def source_counts() -> Any:
    """The module `tests/source_counts.py`."""
    spec = importlib.util.spec_from_file_location("source_counts", ROOT / "tests" / "source_counts.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def numbers() -> str:
    """The tables of the source in numbers: the whole, and each package."""
    counts = source_counts()
    tree = counts.Tree(ROOT)
    return "\n".join([*counts.table([tree]), "", *counts.packages(tree)])


def as_page(name: str) -> str:
    """The text of a file of the root as a page at the top of the site."""
    text = (ROOT / name).read_text(encoding="utf-8")
    if NUMBERS in text:
        text = text.replace(NUMBERS, numbers())
    return LINK.sub(lambda link: _link(link[1], link[2]), text)


def _link(words: str, target: str) -> str:
    """A link from the root to a file, as one from the top of the site; the words alone if the site has no such page."""
    path, mark, anchor = target.partition("#")
    if path.startswith(("http:", "https:")) or not path:
        return f"[{words}]({target})"
    page = PAGES.get(path) or (path.removeprefix("docs/") if path.startswith("docs/") else None)
    return words if page is None else f"[{words}]({page}{mark}{anchor})"


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Adds the pages to what MkDocs writes."""
    for name in SOURCES:
        files.append(File.generated(config, PAGES[name], content=as_page(name)))
    return files


def on_page_markdown(markdown: str, *, page: Any, **_: Any) -> str:
    """Leads links from pages to files of the root to the pages that these are in the site."""
    here = posixpath.dirname(page.file.src_uri)

    def in_site(link: re.Match[str]) -> str:
        path, mark, anchor = link[2].partition("#")
        file = posixpath.normpath(posixpath.join("docs", here, path))
        if file not in PAGES:
            return link[0]
        return f"[{link[1]}]({posixpath.relpath(PAGES[file], here or '.')}{mark}{anchor})"

    return LINK.sub(in_site, markdown)
