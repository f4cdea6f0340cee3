"""MathJax goes into the site, from the package that carries its files: no page asks another server for anything."""

from __future__ import annotations

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
