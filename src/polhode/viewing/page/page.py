"""HTML pages of runs: self-contained, or a shell that loads runs in progress from its server."""

from __future__ import annotations

import base64
import html
import json
from collections.abc import Sequence
from importlib import resources
from typing import TYPE_CHECKING, Any

from polhode.viewing.page.payload import payload
from polhode.viewing.scene.scene import Scene

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_SCRIPTS = (
    *("maths.js", "meshes.js", "shaders.js", "gl.js", "clouds.js", "solids.js", "view.js"),
    *("charts.js", "chooser.js", "report.js", "stage.js", "clock.js", "page.js"),
)

# The content security policy: the page loads nothing from other places.
_POLICY = "default-src 'none'; script-src 'unsafe-inline'; style-src 'unsafe-inline'; img-src data: blob:"


def page(solution: Run, scene: Scene | None = None) -> str:
    """The HTML of a page of one run with all its data. Without a scene it shows only charts."""
    return document([(solution, scene)])


def document(runs: Sequence[tuple[Run, Scene | None]], labels: Sequence[str] = ()) -> str:
    """The HTML of a self-contained page of one or two runs."""
    description, numbers = payload(runs, labels)
    title = " · ".join(str(run["title"]) for run in description["runs"])
    return _fill_template(title, _SCRIPTS, "", description, base64.b64encode(numbers).decode())


def shell(title: str) -> str:
    """The HTML of a page that loads its runs from the address `data` beside it."""
    return _fill_template(title, (*_SCRIPTS, "live.js"), "; connect-src 'self'", None, "")


def _fill_template(
    title: str, scripts: Sequence[str], more: str, description: dict[str, Any] | None, numbers: str
) -> str:
    from polhode import __version__

    parts = {
        "TITLE": html.escape(f"{title} · polhode"),
        "VERSION": __version__,
        "CSS": _read_resource("page.css"),
        "JS": "\n".join(_read_resource(name) for name in scripts),
        "POLICY": f"{_POLICY}{more}",
        # Tags and comments within a string could end the script element, or keep it open.
        "RUN": json.dumps(description).replace("<", "\\u003c"),
        "DATA": numbers,
    }
    pieces = _read_resource("page.html").split("@")
    return "".join(parts.get(piece, piece) if i % 2 else piece for i, piece in enumerate(pieces))


def _read_resource(name: str) -> str:
    return resources.files("polhode.viewing.page").joinpath("web", name).read_text(encoding="utf-8").rstrip("\n")
