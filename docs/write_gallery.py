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
from polhode.viewing.film.frame_renderer import FrameRenderer
from polhode.viewing.scene.sampled_motion import sample

FOLDER = Path(__file__).parent / "gallery"
SIZE = (480, 320)
FINER = 3
"""Pictures are drawn so many times larger, and cut to what is in them."""
FAINT = 165 / 255
"""Sky, ground and grid have no darker red, green or blue."""
PARAMETERS = {
    "grain-pile": {"duration": 0.5},
    "falling-block": {"duration": 0.3},
    "four-bar-loop": {"duration": 2.0},
    "torus": {"duration": 3.0},
}
"""Where the whole motion takes minutes or leads far away, its beginning is drawn."""
HEAD = """# Gallery

Every problem of `ph.problems`, drawn by the library after two thirds of its motion, or of the beginning of it.
Written by `docs/write_gallery.py` from the problems' own descriptions; [which methods take them](../matrix.md)
is another page.
"""


def draw(name: str) -> None:
    """Runs a problem and keeps one picture of it."""
    problem = ph.problems.get(name, **PARAMETERS.get(name, {}))
    run = ph.simulate(problem)
    scene = problem.scene
    assert scene is not None, name
    motion = sample(scene, run, 60)
    picture = FrameRenderer(scene, motion, (FINER * SIZE[0], FINER * SIZE[1])).frame(2 * len(motion.t) // 3)
    whole = Image.fromarray(np.rint(255 * picture).astype(np.uint8))
    whole.resize(SIZE, Image.Resampling.LANCZOS, box=around(picture)).save(
        FOLDER / f"{name}.webp", quality=85, method=6
    )


def around(picture: np.ndarray) -> tuple[float, float, float, float]:
    """Left, top, right and bottom of the part, in the shape of `SIZE`, that has what moves in it, with a margin."""
    rows, columns = np.nonzero(picture.min(axis=2) < FAINT)
    height, width = picture.shape[:2]
    extent = np.array([np.ptp(columns) / SIZE[0], np.ptp(rows) / SIZE[1], 1.0]).max() * 1.25
    size = np.minimum(extent * np.array(SIZE), (width, height))
    middle = np.array([columns.min() + columns.max(), rows.min() + rows.max()]) / 2
    low = np.clip(middle - size / 2, 0, (width, height) - size)
    return (*low, *(low + size))


def entry(name: str) -> str:
    """Picture, story, source and command of a problem."""
    builder = builder_of(name)
    summary = (inspect.getdoc(builder) or "").partition("\n")[0]
    paragraphs = vars(inspect.getmodule(inspect.unwrap(builder)))["_DOC"].strip().split("\n\n")
    picture = f"![{summary}]({name}.webp)\n\n" if (FOLDER / f"{name}.webp").exists() else ""
    more = "".join(f"\n\n    {part.replace(chr(10), chr(10) + '    ')}" for part in paragraphs[1:])
    details = f'\n\n??? note "Data and source"{more}' if more else ""
    return f"## {name}\n\n{picture}{paragraphs[0]}\n\n```text\npolhode run {name} --export {name}.html\n```{details}\n"


if __name__ == "__main__":
    for name in sys.argv[1:]:
        draw(name)
        print(name, flush=True)
    FOLDER.joinpath("index.md").write_text("\n".join([HEAD, *map(entry, ph.problems.names())]), encoding="utf-8")
