"""Display of runs in a browser, by a server on this machine, or in a notebook."""

from __future__ import annotations

import html
import sys
import webbrowser
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

from polhode.jax_context import warn
from polhode.viewing.page.page import document
from polhode.viewing.page.payload import payload
from polhode.viewing.page.server import Server
from polhode.viewing.scene import model_scene
from polhode.viewing.scene.scene import Scene

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_MOST = 2
_HEIGHT = 760


def scene_of(solution: Run) -> Scene | None:
    """The scene that the run stored, or that of its problem; None, with a warning, if that can't be rebuilt."""
    if "scene" in solution.meta:
        return _stored_scene(solution)
    try:
        scene = solution.picture() if solution.picture is not None else None
    except (ValueError, TypeError) as error:
        warn(f"The page has charts only; the problem could not be rebuilt: {error}", UserWarning)
        return None
    return scene.readable(solution.outputs) if scene else None


def _stored_scene(solution: Run) -> Scene | None:
    """The scene that the run stored; None, with a warning, for one that can't be drawn."""
    try:
        return model_scene.from_dict(solution.meta["scene"]).readable(solution.outputs)
    except (KeyError, TypeError, IndexError, AttributeError, OverflowError, ValueError) as error:
        warn(f"The page has charts only; the scene that the run has stored makes no sense: {error!r}", UserWarning)
        return None


class Source(Protocol):
    """A source of a run for the page."""

    def look(self) -> tuple[str, bool]:
        """A word that changes when the run does, and whether the run is in progress."""
        ...

    def read(self) -> tuple[Run, Scene | None]:
        """The run up to now, and its scene."""
        ...


class InMemory:
    """A run in memory, which is finished."""

    def __init__(self, solution: Run) -> None:
        self._solution = solution

    def look(self) -> tuple[str, bool]:
        """A constant word, and False."""
        return "whole", False

    def read(self) -> tuple[Run, Scene | None]:
        """The run and its scene."""
        return self._solution, scene_of(self._solution)


def serve(sources: Sequence[Source], labels: Sequence[str], port: int = 0, host: str = "127.0.0.1") -> Server:
    """A server of the page of one or two runs; see `Server`."""
    check_count(len(sources))

    def look() -> tuple[str, bool]:
        states = [source.look() for source in sources]
        return " | ".join(word for word, _ in states), any(live for _, live in states)

    return Server(" · ".join(labels), look, lambda: payload([source.read() for source in sources], labels), port, host)


def check_count(count: int) -> None:
    """Raises ValueError for more runs than a page compares."""
    if count > _MOST:
        raise ValueError(f"A page shows one run, or compares two; got {count}.")


class EmbeddedPage:
    """A self-contained page in a notebook."""

    def __init__(self, text: str) -> None:
        self._text = text

    def _repr_html_(self) -> str:
        style = f"width: 100%; height: {_HEIGHT}px; border: 0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(self._text)}"></iframe>'


def show(runs: Sequence[Run], labels: Sequence[str] | None, block: bool | None, browser: bool) -> Any:
    """See `Solution.show`."""
    check_count(len(runs))
    names = list(labels) if labels else _labels(runs)
    if len(names) != len(runs):
        raise ValueError(f"`labels` must have a name for each of the {len(runs)} runs, got {len(names)}.")
    if _in_notebook():
        return EmbeddedPage(document([(run, scene_of(run)) for run in runs], names))
    server = serve([InMemory(run) for run in runs], names)
    if browser:
        webbrowser.open(server.url)
    if block is False or (block is None and hasattr(sys, "ps1")):
        return server
    print(f"{server.url}\nCtrl-C ends it.", file=sys.stderr, flush=True)
    try:
        server.wait()
    except KeyboardInterrupt:
        pass
    finally:
        server.close()
    return None


def _labels(runs: Sequence[Run]) -> list[str]:
    names = [str(run.meta.get("problem") or "system") for run in runs]
    return names if len(set(names)) == len(names) else [f"{name} {'AB'[i]}" for i, name in enumerate(names)]


def _in_notebook() -> bool:
    """Whether a Jupyter kernel runs this."""
    module = sys.modules.get("IPython")
    shell = module.get_ipython() if module is not None else None
    return shell is not None and hasattr(shell, "kernel")
