"""Runs tutorials and stores their outputs: `python THIS [PAGE …]`, all of them without names.

Their figures are put beside the pages, and the output of a block after it as a block of text.
"""

from __future__ import annotations

import io
import os
import shutil
import sys
import tempfile
from contextlib import redirect_stdout
from pathlib import Path

import matplotlib
from notebooks import BLOCK, FOLDER, pages
from PIL import Image


def with_outputs(page: Path) -> str:
    """The page with what its blocks print now; they run where the process is."""
    text = page.read_text(encoding="utf-8")
    names: dict[str, object] = {"__name__": "__main__"}
    parts, last = [], 0
    for i, block in enumerate(BLOCK.finditer(text)):
        printed = io.StringIO()
        with redirect_stdout(printed):
            exec(compile(block[1], f"{page.name}, block {i + 1}", "exec"), names)
        parts += [text[last : block.start()], f"```python\n{block[1]}```"]
        if printed.getvalue():
            parts.append(f"\n\n```text\n{printed.getvalue()}```")
        last = block.end()
    return "".join(parts) + text[last:]


def execute(page: Path) -> None:
    """Runs a page in an empty folder, and takes what it prints and the PNG files that it leaves, in 64 colours."""
    with tempfile.TemporaryDirectory() as place:
        os.chdir(place)
        text = with_outputs(page)
        for figure in Path(place).glob("*.png"):
            Image.open(figure).convert("RGB").quantize(64).save(figure, optimize=True)
            shutil.copy(figure, FOLDER / figure.name)
        os.chdir(FOLDER)
    page.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    matplotlib.use("agg")
    for page in [FOLDER / f"{name}.md" for name in sys.argv[1:]] or pages():
        execute(page)
        print(page.stem, flush=True)
