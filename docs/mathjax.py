"""MathJax goes into the site, from the package that carries its files: no page asks another server for anything."""

from __future__ import annotations

import json
import re
import unicodedata
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

PACKAGE = "sphinx-mathjax-offline"
# One file that needs no fonts: it draws formulas as SVG.
SCRIPT = "static/mathjax/tex-svg.js"
ADDRESS = "assets/tex-svg.js"

# Set before MathJax starts, which reads only what `pymdownx.arithmatex` marked.
SETTINGS = """window.MathJax = {
  tex: {inlineMath: [["\\\\(", "\\\\)"]], displayMath: [["\\\\[", "\\\\]"]], processEscapes: true},
  options: {ignoreHtmlClass: ".*", processHtmlClass: "arithmatex"},
};
"""


def on_config(config: Any, **_: Any) -> Any:
    """Both scripts are loaded by every page, the settings first."""
    config.extra_javascript.extend(["assets/mathjax-settings.js", ADDRESS])
    return config


def on_files(files: Files, *, config: Any, **_: Any) -> Files:
    """Adds the two scripts to what is written."""
    script = Path(str(distribution(PACKAGE).locate_file(PACKAGE))) / SCRIPT
    files.append(File.generated(config, ADDRESS, abs_src_path=str(script)))
    files.append(File.generated(config, "assets/mathjax-settings.js", content=SETTINGS))
    return files


def on_post_build(config: Any, **_: Any) -> None:
    """Results of searches show formulas as text: nothing draws them there."""
    path = Path(config.site_dir) / "search" / "search_index.json"
    if path.exists():
        index = json.loads(path.read_text(encoding="utf-8"))
        for document in index["docs"]:
            document["text"] = FORMULA.sub(lambda found: plain(found[1] or found[2]), document["text"])
        path.write_text(json.dumps(index, ensure_ascii=False), encoding="utf-8")


FORMULA = re.compile(r"\\\((.+?)\\\)|\\\[(.+?)\\\]", re.DOTALL)


def plain(formula: str) -> str:
    """A formula in plain characters: Greek letters as such, commands and braces left out."""
    letters = re.sub(r"\\([A-Za-z]+)", lambda command: _letter(command[1]), formula)
    return re.sub(r"\s+", " ", re.sub(r"[{}$\\]", "", letters)).strip()


def _letter(name: str) -> str:
    size = "CAPITAL" if name[0].isupper() else "SMALL"
    try:
        return unicodedata.lookup(f"GREEK {size} LETTER {name.upper()}")
    except KeyError:
        return " "
