"""Writes the gallery, a picture and a story of every named problem: `python THIS [NAME …]`.

With names, only their pictures are drawn anew; the page is always written, from the problems' own descriptions.
"""

from __future__ import annotations

import inspect
import sys
from pathlib import Path

import numpy as np
from PIL import Image

import polhode as ph
from polhode.problems.registry import builder_of
from polhode.viewing.motion import sample
from polhode.viewing.picture import Pictures

FOLDER = Path(__file__).parent / "gallery"
SIZE = (480, 320)
PARAMETERS = {"grain-pile": {"duration": 0.2}, "falling-block": {"duration": 0.1}, "torus": {"duration": 0.2}}
"""Where the whole motion takes minutes, its beginning is drawn."""
HEAD = """# Gallery

Every problem of `ph.problems`, after two thirds of its motion, drawn by the library. Written by `docs/write_gallery.py`
from the problems' own descriptions; [which methods take them](../matrix.md) is another page.
"""


def draw(name: str) -> None:
    """Runs a problem and keeps one picture of it."""
    problem = ph.problems.get(name, **PARAMETERS.get(name, {}))
    run = ph.simulate(problem)
    scene = problem.scene
    assert scene is not None, name
    motion = sample(scene, run, 60)
    picture = Pictures(scene, motion, SIZE).frame(2 * len(motion.t) // 3)
    Image.fromarray(np.rint(255 * picture).astype(np.uint8)).save(FOLDER / f"{name}.webp", quality=85, method=6)


def entry(name: str) -> str:
    """Picture, story, source and command of a problem."""
    builder = builder_of(name)
    summary = (inspect.getdoc(builder) or "").partition("\n")[0]
    paragraphs = vars(inspect.getmodule(inspect.unwrap(builder)))["_DOC"].strip().split("\n\n")
    paragraphs = [part for part in paragraphs if not part.startswith("Parameters:")]
    picture = f"![{summary}]({name}.webp)\n\n" if (FOLDER / f"{name}.webp").exists() else ""
    more = "".join(f"\n\n    {part.replace(chr(10), chr(10) + '    ')}" for part in paragraphs[1:])
    details = f'\n\n??? note "Data and source"{more}' if more else ""
    return f"## {name}\n\n{picture}{paragraphs[0]}\n\n```text\npolhode run {name} --export {name}.html\n```{details}\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw(name)
        print(name, flush=True)
    FOLDER.joinpath("index.md").write_text("\n".join([HEAD, *map(entry, ph.problems.names())]), encoding="utf-8")
