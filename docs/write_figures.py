"""Runs tutorials and keeps their figures beside them: `python THIS [PAGE …]`, all of them without names."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path

import matplotlib
from notebooks import BLOCK, FOLDER, pages
from PIL import Image


def execute(page: Path) -> None:
    """Runs the Python blocks of a page in an empty folder and takes the PNG files that they leave, in 64 colours."""
    text = page.read_text(encoding="utf-8")
    namespace: dict[str, object] = {"__name__": "__main__"}
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        for i, block in enumerate(BLOCK.findall(text)):
            exec(compile(block, f"{page.name}, block {i + 1}", "exec"), namespace)
        for figure in Path(place).glob("*.png"):
            Image.open(figure).convert("RGB").quantize(64).save(figure, optimize=True)
            shutil.copy(figure, FOLDER / figure.name)
        os.chdir(FOLDER)


if __name__ == "__main__":
    matplotlib.use("agg")
    for page in [FOLDER / f"{name}.md" for name in sys.argv[1:]] or pages():
        execute(page)
        print(page.stem, flush=True)
