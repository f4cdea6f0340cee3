"""Renders frames of a moving scene as the page shows them, without a browser."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from polhode.viewing.film.rasteriser import Camera, GBuffer, covered_pixels
from polhode.viewing.scene import geometry
from polhode.viewing.scene.arrow_fields import Vectors
from polhode.viewing.scene.sampled_motion import Motion
from polhode.viewing.scene.scene import Body, Cloud, Line, Scene, Trail
from polhode.viewing.style import RISING, SIGNED

_SKY, _GROUND, _GRID = (np.array(c) / 255 for c in ((233, 238, 244), (247, 249, 251), (180, 191, 204)))
_SHADOW = 0.8
_FINER = 2
"""Supersampling: pixels along a side that are averaged to one."""


def rgb(colour: str) -> np.ndarray:
    """Red, green and blue from 0 to 1 of "#rrggbb"."""
    return np.array([int(colour[i : i + 2], 16) for i in (1, 3, 5)]) / 255


def colours_of(values: np.ndarray, limits: tuple[float, float]) -> np.ndarray:
    """Colours (n, 3) of values; limits of opposite signs have zero in the middle."""
    low, high = limits
    is_signed = low < 0 < high
    most = max(-low, high)
    s = 0.5 + 0.5 * values / most if is_signed else (values - low) / ((high - low) or 1.0)
    stops = np.stack([rgb(colour) for colour in (SIGNED if is_signed else RISING)])
    at = np.clip(s, 0, 1) * (len(stops) - 1)
    return np.stack([np.interp(at, np.arange(len(stops)), stops[:, i]) for i in range(3)], axis=1)


def limits(scene: Scene, motion: Motion, tint: str) -> tuple[float, float]:
    """The least and the largest value of a quantity that colours tubes, over all tubes and frames."""
    arrays = [
        tints[:, :, line.tints.names.index(tint)]
        for line, tints in zip(scene.of(Line), motion.tints, strict=True)
        if line.tints and tints is not None and tint in line.tints.names
    ]
    return min(float(values.min()) for values in arrays), max(float(values.max()) for values in arrays)


class FrameRenderer:
    """Renders the frames of one motion with a fixed camera.

    **Arguments:**

    - `scene`, `motion`: what moves; `size`: width and height in pixels.
    - `tint`: name of the quantity that colours tubes, or None. - `arrows`: scaled to the length of drawing.
    """

    def __init__(
        self,
        scene: Scene,
        motion: Motion,
        size: tuple[int, int],
        tint: str | None = None,
        arrows: Sequence[Vectors] = (),
    ) -> None:
        self._scene, self._motion = scene, motion
        centre, self._radius, self._floor = motion.bounds(scene)
        up = np.asarray(scene.up, dtype=float) / np.linalg.norm(scene.up)
        e1, e2 = geometry.frames(up[None])[0].T[:2]
        fine = (_FINER * size[0], _FINER * size[1])
        self._camera = Camera(centre, np.stack([e1, e2, up]), self._radius / np.sin(0.3), fine)
        self._bodies = [geometry.of_body(body, scene) for body in scene.of(Body)]
        self._tint, self._arrows = tint, arrows
        self.limits = limits(scene, motion, tint) if tint else (0.0, 1.0)
        self._centre = centre
        self._background = self._backdrop()
        self._empty = _mean(self._background)
        self._traces = [Trace(self._camera, points) for points in motion.trails]

    def frame(self, k: int) -> np.ndarray:
        """The picture of frame k, shape (height, width, 3), from 0 to 1."""
        buffer = GBuffer(self._camera)
        background = self._background.copy()
        pixels = []
        surfaces = [*self._of_bodies(k), *self._of_lines(k), *self._of_arrows(k)]
        if surfaces:
            whole = geometry.join([surface for surface, _ in surfaces])
            colours = np.concatenate([colour for _, colour in surfaces])
            pixels.append(self._shadow(whole))
            background.reshape(-1, 3)[pixels[-1]] *= _SHADOW
            buffer.triangles(whole.vertices, whole.normals, colours, whole.faces)
        for cloud, places, stride in zip(self._scene.of(Cloud), self._motion.clouds, self._motion.strides, strict=True):
            buffer.spheres(places[k], np.asarray(cloud.diameters, float)[::stride] / 2, rgb(cloud.colour))
        picture = buffer.over(background)
        pixels.append(buffer.pixels)
        for trail, trace in zip(self._scene.of(Trail), self._traces, strict=True):
            pixels.append(trace.draw(picture, buffer, k, rgb(trail.colour)))
        return self._average(picture, np.concatenate(pixels))

    def _average(self, picture: np.ndarray, pixels: np.ndarray) -> np.ndarray:
        """The picture averaged over supersampled pixels; outside the drawn ones it is the background."""
        small = self._empty.copy()
        if len(pixels):
            rows, columns = np.divmod(pixels, picture.shape[1])
            rows, columns = (slice(x.min() // _FINER, x.max() // _FINER + 1) for x in (rows, columns))
            small[rows, columns] = _mean(
                picture[_FINER * rows.start : _FINER * rows.stop, _FINER * columns.start : _FINER * columns.stop]
            )
        return small

    def _of_bodies(self, k: int) -> list[tuple[geometry.Surface, np.ndarray]]:
        parts = []
        for body, surfaces, x, q in zip(
            self._scene.of(Body), self._bodies, self._motion.positions, self._motion.quaternions, strict=True
        ):
            R = rotation(q[k])
            for surface, colour in surfaces:
                tone = np.where(surface.marks > 0, 1.0, 0.76) if body.marked else np.ones(len(surface.vertices))
                parts.append((surface.moved_by(x[k], R), tone[:, None] * rgb(colour)))
        return parts

    def _of_lines(self, k: int) -> list[tuple[geometry.Surface, np.ndarray]]:
        parts = []
        for line, points, tints in zip(self._scene.of(Line), self._motion.lines, self._motion.tints, strict=True):
            thick = geometry.THIN * self._radius * (2.2 if line.tints else 1.0)
            nodes = geometry.coil(points[k][0], points[k][-1], 8 * thick) if line.coil else points[k]
            surface = geometry.tube(nodes, line.radius or thick)
            colours = np.broadcast_to(rgb(line.colour), surface.vertices.shape)
            if line.tints and tints is not None and self._tint in line.tints.names:
                values = tints[:, :, line.tints.names.index(self._tint)]
                scale = colours_of(values[k], self.limits)
                colours = scale[surface.marks.astype(int)]
            parts.append((surface, colours))
        return parts

    def _of_arrows(self, k: int) -> list[tuple[geometry.Surface, np.ndarray]]:
        parts = []
        for each in self._arrows:
            for foot, vector in zip(each.feet[k], each.vectors[k], strict=True):
                surface = geometry.arrow(foot, vector, 1.2 * geometry.THIN * self._radius)
                if surface is not None:
                    parts.append((surface, np.broadcast_to(rgb(each.colour), surface.vertices.shape)))
        return parts

    def _shadow(self, surface: geometry.Surface) -> np.ndarray:
        """Numbers of the pixels of the floor below a surface."""
        up = self._camera.axes[2]
        flat = surface.vertices - ((surface.vertices @ up - self._floor)[:, None]) * up
        return covered_pixels(self._camera, flat, surface.faces)

    def _backdrop(self) -> np.ndarray:
        """The background: sky, and the floor with its grid, which fades with distance."""
        camera, rays = self._camera, self._camera.rays()
        height = camera.size[1]
        mix = np.clip(np.arange(height) / (0.75 * height), 0, 1)[:, None, None]
        picture = np.broadcast_to((1 - mix) * _SKY + mix * _GROUND, rays.shape).copy()
        e1, e2, up = camera.axes
        descent = rays @ up
        rise = self._floor - camera.eye @ up
        with np.errstate(divide="ignore", invalid="ignore"):
            far = np.where(descent * rise > 0, rise / descent, np.nan)
        place = camera.eye + far[..., None] * rays - self._centre
        pitch = nice(self._radius / 5)
        distance = np.linalg.norm(place - (place @ up)[..., None] * up, axis=-1)
        fade = 1 - np.clip((distance / (5 * self._radius) - 0.25) / 0.75, 0, 1)
        # A pixel's width on the floor, along the line of sight where it is longest.
        pixel = far * far / (camera.focal * abs(rise)) * np.linalg.norm(rays, axis=-1)
        strength = np.zeros(far.shape)
        for step, most in ((5 * pitch, 0.42), (pitch, 0.2)):
            for e in (e1, e2):
                along = (place + self._centre) @ e / step
                gap = np.abs(along - np.rint(along)) * step
                sharp = np.clip(1 - gap / np.maximum(pixel, 1e-12), 0, 1) * np.clip(1.5 - 2.5 * pixel / step, 0, 1)
                strength = np.maximum(strength, most * np.nan_to_num(sharp))
        picture += np.nan_to_num(fade * strength)[..., None] * (_GRID - picture)
        return picture.astype(np.float32)


class Trace:
    """The trail of a point, stronger where it has been recently.

    Its pixels are listed once, in order of time: those up to a frame are a prefix of the list, in which the last entry
    of a pixel is the strongest.
    """

    def __init__(self, camera: Camera, points: np.ndarray) -> None:
        pixels, depth = camera.project(points)
        steps = np.maximum(np.ceil(np.abs(np.diff(pixels, axis=0)).max(axis=1, initial=0.0)), 1).astype(int)
        at = np.repeat(np.arange(len(steps)), steps)
        at = at + (np.arange(len(at)) - np.repeat(np.cumsum(steps) - steps, steps)) / np.repeat(steps, steps)
        x, y, z = (np.interp(at, np.arange(len(points)), column) for column in (pixels[:, 0], pixels[:, 1], depth))
        reach = np.arange(-_FINER, _FINER + 1)
        dx, dy = (d[np.hypot(*np.meshgrid(reach, reach)) <= _FINER] for d in np.meshgrid(reach, reach))
        u, v = np.floor(x).astype(int)[:, None] + dx, np.floor(y).astype(int)[:, None] + dy
        width, height = camera.size
        inside = (u >= 0) & (u < width) & (v >= 0) & (v < height) & (z > 0)[:, None]
        self._pixel = (v * width + u)[inside]
        self._nearness = np.broadcast_to((1 / np.where(z > 0, z, 1.0))[:, None], u.shape)[inside]
        self._time = np.broadcast_to(at[:, None], u.shape)[inside]
        self._count = len(points)

    def draw(self, picture: np.ndarray, buffer: GBuffer, k: int, colour: np.ndarray) -> np.ndarray:
        """Draws the trail up to frame k and returns its pixels."""
        end = int(np.searchsorted(self._time, k))
        pixel, time = self._pixel[:end], self._time[:end]
        visible = self._nearness[:end] >= buffer.nearness[pixel]
        pixel, time = pixel[visible], time[visible]
        newest = np.zeros(len(buffer.nearness), dtype=np.int32)
        newest[pixel] = np.arange(len(pixel))
        last = newest[pixel] == np.arange(len(pixel))
        pixel, time = pixel[last], time[last]
        alpha = (0.38 + 0.57 * np.exp(-5 * (k - time) / self._count))[:, None]
        flat = picture.reshape(-1, 3)
        flat[pixel] += alpha * (colour - flat[pixel])
        return pixel


def _mean(picture: np.ndarray) -> np.ndarray:
    """Means over squares of `_FINER` by `_FINER` pixels."""
    parts = [picture[i::_FINER, j::_FINER] for i in range(_FINER) for j in range(_FINER)]
    return np.add.reduce(parts) / len(parts)


def rotation(q: np.ndarray) -> np.ndarray:
    """Rotation matrix of a quaternion (w, x, y, z)."""
    w, x, y, z = q / np.linalg.norm(q)
    return np.array(
        [
            [1 - 2 * (y * y + z * z), 2 * (x * y - w * z), 2 * (x * z + w * y)],
            [2 * (x * y + w * z), 1 - 2 * (x * x + z * z), 2 * (y * z - w * x)],
            [2 * (x * z - w * y), 2 * (y * z + w * x), 1 - 2 * (x * x + y * y)],
        ]
    )


def nice(length: float) -> float:
    """The nearest value of 1, 2 or 5 times a power of ten."""
    power = 10.0 ** np.floor(np.log10(length))
    m = length / power
    return float(power * (1 if m < 1.5 else 2 if m < 3.5 else 5 if m < 7.5 else 10))
