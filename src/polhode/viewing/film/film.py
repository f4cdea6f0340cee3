"""Films of a run: mp4 and GIF."""

from __future__ import annotations

import contextlib
import functools
import subprocess
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from polhode.checks import nearest, short_repr
from polhode.progress import ProgressCallback
from polhode.viewing import unit_labels
from polhode.viewing.film.frame_renderer import FrameRenderer, colours_of
from polhode.viewing.scene import arrow_fields
from polhode.viewing.scene.sampled_motion import sample
from polhode.viewing.scene.scene import Line, Scene

if TYPE_CHECKING:
    from polhode.results.protocols import Run

_SIZE = (960, 640)
_SMALL = (600, 400)
_RATE, _SLOW = 30, 20
"""Pictures per second of mp4 and of GIF, whose durations are in hundredths of a second."""
_INK, _GREY = (29, 34, 41), (102, 112, 128)


class Look(NamedTuple):
    """Options of a film. - `tint`: quantity that colours tubes. - `arrows`: names of the arrows that are drawn."""

    tint: str | None = None
    arrows: tuple[str, ...] = ()


PLAIN = Look()


def mp4(solution: Run, scene: Scene, path: Path, look: Look = PLAIN, report: ProgressCallback | None = None) -> None:
    """Writes a film with 30 pictures per second; `report` is called with the progress.

    Raises ValueError without imageio-ffmpeg, OSError where ffmpeg fails.
    """
    try:
        import imageio_ffmpeg
    except ImportError as error:
        raise ValueError(
            "Writing mp4 needs imageio-ffmpeg: `pip install 'polhode[video]'`. A GIF needs nothing: name the file .gif."
        ) from error
    size = f"{_SIZE[0]}x{_SIZE[1]}"
    input_options = ("-f", "rawvideo", "-pix_fmt", "rgb24", "-s", size, "-r", str(_RATE), "-i", "-")
    output_options = (
        "-an",
        "-c:v",
        "libx264",
        "-pix_fmt",
        "yuv420p",
        "-crf",
        "18",
        "-movflags",
        "+faststart",
        "-f",
        "mp4",
    )
    command = [imageio_ffmpeg.get_ffmpeg_exe(), "-y", "-loglevel", "error", *input_options, *output_options]
    with tempfile.TemporaryFile() as errors:
        # imageio_ffmpeg would start it by a fork, for which JAX warns.
        ffmpeg = subprocess.Popen(
            [*command, str(path)], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL, stderr=errors
        )
        assert ffmpeg.stdin is not None
        try:
            with contextlib.suppress(BrokenPipeError), ffmpeg.stdin as pipe:
                for picture in _pictures(solution, scene, _SIZE, _RATE, look, report):
                    pipe.write(picture.tobytes())
        except BaseException:
            ffmpeg.kill()
            raise
        finally:
            status = ffmpeg.wait()
        if status:
            errors.seek(0)
            why = errors.read().decode(errors="replace").strip()
            raise OSError(f"ffmpeg could not write the film: {why or f'it ended with {status}'}.")


def gif(solution: Run, scene: Scene, path: Path, look: Look = PLAIN, report: ProgressCallback | None = None) -> None:
    """Writes an endless film with 20 pictures per second; `report` is called with the progress."""
    from PIL import Image

    pictures = [Image.fromarray(picture) for picture in _pictures(solution, scene, _SMALL, _SLOW, look, report)]
    # One palette for all pictures, from a few of them, so that colours don't flicker.
    few = np.concatenate([np.asarray(picture) for picture in pictures[:: max(1, len(pictures) // 8)]])
    palette = Image.fromarray(few).quantize(255, dither=Image.Dither.NONE)
    frames = [picture.quantize(palette=palette, dither=Image.Dither.NONE) for picture in pictures]
    frames[0].save(path, "GIF", save_all=True, append_images=frames[1:], duration=1000 // _SLOW, loop=0, optimize=False)


def seconds(span: float) -> float:
    """Duration of a film of a motion: real time from 3 to 30 units of time, otherwise 12 seconds, as in the page."""
    return span if 3 <= span <= 30 else 12.0


def _pictures(
    solution: Run, scene: Scene, size: tuple[int, int], rate: int, look: Look, report: ProgressCallback | None
) -> Iterator[np.ndarray]:
    t = np.sort(np.asarray(solution.t, dtype=float))
    count = max(2, round(rate * seconds(float(t[-1] - t[0]))))
    motion = sample(scene, solution, count)
    # Forces are computed from the states, so only on request.
    arrows = list(arrow_fields.of_run(scene, motion, solution)) if look.arrows else []
    scaled_arrows = arrow_fields.scale(arrows, look.arrows, motion.bounds(scene)[1])
    renderer = FrameRenderer(scene, motion, size, _check_tint(scene, look.tint), scaled_arrows)
    legend = Legend.of(scene, renderer, arrows, look, solution.meta)
    unit = unit_labels.time(solution.meta)
    moments = np.linspace(motion.t[0], motion.t[-1], count)
    frames = np.clip(np.searchsorted(motion.t, moments, side="right") - 1, 0, len(motion.t) - 1)
    title = str(solution.meta.get("problem") or "system")
    last, picture = -1, np.zeros((0,))
    for number, (moment, k) in enumerate(zip(moments, frames, strict=True), 1):
        if k != last:
            last, picture = int(k), np.rint(255 * renderer.frame(int(k))).astype(np.uint8)
        yield _add_labels(picture, title, f"t = {moment:.4g}{f' {unit}' if unit else ''}", legend)
        if report is not None:
            report(number, count)


class Legend(NamedTuple):
    """The legend of a film's colours.

    - `arrows`: text and colour of each kind. - `scale`: quantity that colours tubes, and its limits, or None.
    """

    arrows: list[tuple[str, str]]
    scale: tuple[str, tuple[float, float]] | None

    @classmethod
    def of(
        cls,
        scene: Scene,
        pictures: FrameRenderer,
        arrows: list[arrow_fields.Vectors],
        look: Look,
        meta: Mapping[str, Any],
    ) -> Legend:
        """The legend, with units if the run has them."""
        entries = [
            (f"{each.name}, longest {each.longest:.3g} {unit_labels.of_kind(each.kind, meta)}".rstrip(), each.colour)
            for each in arrows
            if each.name in look.arrows
        ]
        if look.tint is None:
            return cls(entries, None)
        tints = next(line.tints for line in scene.of(Line) if line.tints and look.tint in line.tints.names)
        unit = unit_labels.of_kind(tints.kinds[tints.names.index(look.tint)], meta)
        return cls(entries, (f"{look.tint} in {unit}" if unit else look.tint, pictures.limits))


def _check_tint(scene: Scene, tint: str | None) -> str | None:
    """`tint` if it is a quantity by which tubes can be coloured. Raises ValueError otherwise."""
    tints = list(dict.fromkeys(name for line in scene.of(Line) if line.tints for name in line.tints.names))
    if tint is not None and tint not in tints:
        has = f"rods that can be coloured by {', '.join(tints)}" if tints else "no rods to colour"
        raise ValueError(f"`tint` is {short_repr(tint)}, and the run has {has}.{nearest(tint, tints)}")
    return tint


def _add_labels(picture: np.ndarray, title: str, clock: str, legend: Legend) -> np.ndarray:
    """Adds the title and the time in the lower corners, and the legend in the upper ones."""
    from PIL import Image, ImageDraw

    height, width, _ = picture.shape
    size = max(12, height // 32)
    bold, plain = _fonts(size)
    image = Image.fromarray(picture)
    draw = ImageDraw.Draw(image)
    draw.text((size, height - size), title, _INK, bold, anchor="ls")
    # Aligned for the longest time, so that digits don't move.
    x = width - size - draw.textlength("t = 0.00000 s", plain)
    draw.text((x, height - size), clock, _GREY, plain, anchor="ls")
    for row, (text, colour) in enumerate(legend.arrows):
        y = size * (1 + 1.5 * row)
        draw.rectangle((size, y + 0.2 * size, 1.6 * size, y + 0.8 * size), fill=colour)
        draw.text((2.2 * size, y + 0.5 * size), text, _GREY, plain, anchor="lm")
    if legend.scale is not None:
        _draw_scale(draw, legend.scale, width - size, size, plain)
    return np.asarray(image)


def _draw_scale(draw: Any, scale: tuple[str, tuple[float, float]], right: float, size: int, font: Any) -> None:
    """Draws a bar of colours with its limits that ends at `right`; signed limits have zero in the middle."""
    name, (low, high) = scale
    if low < 0 < high:
        low, high = -max(-low, high), max(-low, high)
    wide = 8 * size
    start = right - wide - draw.textlength(f" {high:.3g}", font)
    for x, colour in enumerate(colours_of(np.linspace(low, high, wide), (low, high))):
        draw.line((start + x, size, start + x, 1.7 * size), tuple(np.rint(255 * colour).astype(int)))
    draw.text((start - 0.3 * size, 1.35 * size), f"{low:.3g}", _GREY, font, anchor="rm")
    draw.text((right, 1.35 * size), f"{high:.3g}", _GREY, font, anchor="rm")
    draw.text((right, 2.7 * size), name, _GREY, font, anchor="rm")


@functools.cache
def _fonts(size: int) -> tuple[Any, Any]:
    """The bold and the regular font."""
    import matplotlib
    from PIL import ImageFont

    fonts = Path(matplotlib.get_data_path(), "fonts", "ttf")
    bold, plain = (ImageFont.truetype(fonts / f"{name}.ttf", size) for name in ("DejaVuSans-Bold", "DejaVuSans"))
    return bold, plain
