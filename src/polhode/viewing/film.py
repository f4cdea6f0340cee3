"""Films of a run: mp4 and GIF."""

from __future__ import annotations

import contextlib
import functools
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from polhode.progress import Counted
from polhode.viewing import units
from polhode.viewing.motion import sample
from polhode.viewing.picture import Pictures
from polhode.viewing.scene import Scene

if TYPE_CHECKING:
    from polhode.solution import Solution

_SIZE = (960, 640)
_SMALL = (600, 400)
_RATE, _SLOW = 30, 20
"""Pictures a second of mp4 and of GIF, which counts in hundredths of a second."""
_INK, _MUTED = (29, 34, 41), (102, 112, 128)


def mp4(solution: Solution, scene: Scene, path: Path, tint: str | None = None, told: Counted | None = None) -> None:
    """Writes a film with 30 pictures a second; `told` gets how many are drawn.

    Raises ValueError without imageio-ffmpeg, OSError where ffmpeg fails.
    """
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise ValueError(
            "Writing mp4 needs imageio-ffmpeg: `pip install 'polhode[video]'`. A GIF needs nothing: name the file .gif."
        ) from error
    size = f"{_SIZE[0]}x{_SIZE[1]}"
    taken = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(_RATE), "-i", "-")
    given = ("-an", "-c:v", "libx264", "-pix_fmt", "yuv420p", "-crf", "18", "-movflags", "+faststart", "-f", "mp4")
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *taken, *given]
    with _whole(path) as part, tempfile.TemporaryFile() as said:
        # Its package starts it by a fork, which JAX warns of.
        ffmpeg = subprocess.Popen([*command, str(part)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=said)
        assert ffmpeg.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError), ffmpeg.stdin as pipe:
                for picture in _pictures(solution, scene, _SIZE, _RATE, tint, told):
                    pipe.write(picture.tobytes())
        except BaseException:
            ffmpeg.kill()
            raise
        finally:
            status = ffmpeg.wait()
        if status:
            said.seek(0)
            why = said.read().decode(errors="replace").strip()
            raise OSError(f"ffmpeg could not write `{path}`: {why or f'it ended with {status}'}.")


def gif(solution: Solution, scene: Scene, path: Path, tint: str | None = None, told: Counted | None = None) -> None:
    """Writes an endless film with 20 pictures a second; `told` gets how many are drawn."""
    from PIL import Image

    pictures = [Image.fromarray(picture) for picture in _pictures(solution, scene, _SMALL, _SLOW, tint, told)]
    # One palette for all, from a few of them: otherwise colours flicker.
    few = np.concatenate([np.asarray(picture) for picture in pictures[:: max(1, len(pictures) // 8)]])
    palette = Image.fromarray(few).quantize(255, dither=Image.Dither.NONE)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    with _whole(path) as part:
        frames[0].save(
            part, "GIF", save_all=True, append_images=frames[1:], duration=1000 // _SLOW, loop=0, optimize=False
        )


@contextlib.contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A name beside that of the film, which gets its own when it is whole."""
    part = path.with_name(f"{path.name}.part")
    try:
        yield part
        os.replace(part, path)
    finally:
        part.unlink(missing_ok=True)


def seconds(span: float) -> float:
    """How long a film of a motion lasts: real time from 3 to 30 units of time, otherwise 12 seconds, as in the page."""
    return span if 3 <= span <= 30 else 12.0


def _pictures(
    solution: Solution, scene: Scene, size: tuple[int, int], rate: int, tint: str | None, told: Counted | None
) -> Iterator[np.ndarray]:
    t = np.sort(np.asarray(solution.t, dtype=float))
    count = max(2, round(rate * seconds(float(t[-1] - t[0]))))
    motion = sample(scene, solution, count)
    pictures = Pictures(scene, motion, size, tint)
    unit = units.time(solution.meta)
    moments = np.linspace(motion.t[0], motion.t[-1], count)
    frames = np.clip(np.searchsorted(motion.t, moments, side="right") - 1, 0, len(motion.t) - 1)
    title = str(solution.meta.get("problem") or "system")
    last, kept = -1, np.zeros((0,))
    for number, (moment, k) in enumerate(zip(moments, frames, strict=True), 1):
        if k != last:
            last, kept = int(k), np.rint(255 * pictures.frame(int(k))).astype(np.uint8)
        yield _labelled(kept, title, f"t = {moment:.4g}{f' {unit}' if unit else ''}")
        if told is not None:
            told(number, count)


def _labelled(picture: np.ndarray, title: str, clock: str) -> np.ndarray:
    """With a title and the time in its lower corners."""
    from PIL import Image, ImageDraw

    height, width, _ = picture.shape
    size = max(12, height // 32)
    bold, plain = _fonts(size)
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    draw.text((size, height - size), title, _INK, bold, anchor="ls")
    # As wide as the longest time, so that its digits stand still.
    left = width - size - draw.textlength("t = 0.00000 s", plain)
    draw.text((left, height - size), clock, _MUTED, plain, anchor="ls")
    return np.asarray(image)


@functools.cache
def _fonts(size: int) -> tuple[Any, Any]:
    """Bold and plain."""
    import matplotlib
    from PIL import ImageFont

    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
    bold, plain = (ImageFont.truetype(fonts / f"{name}.ttf", size) for name in ("DejaVuSans-Bold", "DejaVuSans"))
    return bold, plain
