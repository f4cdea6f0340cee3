"""Software rasteriser of triangles and spheres in NumPy: no display or GPU, the same result on all machines.

Scanlines list the covered pixels; of all triangles at a pixel only the nearest one is shaded.
"""

from __future__ import annotations

import dataclasses

import numpy as np

from polhode.viewing.film import scanline

_FIELD = 0.6
"""Vertical field of view in radians, as in the page."""
_NEAREST = 1e-9
"""Depth below which nothing is drawn."""


@dataclasses.dataclass(frozen=True)
class Camera:
    """A camera that orbits a target.

    - `target`: (3,). - `axes`: (3, 3), rows e1, e2, up. - `distance`; `azimuth`, `height`: in radians.
    - `size`: width and height of the picture in pixels.
    """

    target: np.ndarray
    axes: np.ndarray
    distance: float
    size: tuple[int, int]
    azimuth: float = 0.9
    height: float = 0.38

    @property
    def eye(self) -> np.ndarray:
        """Position of the camera."""
        a, h = self.azimuth, self.height
        away = np.array([np.cos(h) * np.cos(a), np.cos(h) * np.sin(a), np.sin(h)])
        return self.target + self.distance * away @ self.axes

    @property
    def view(self) -> np.ndarray:
        """Rows: to the right, up and towards the eye."""
        back = (self.eye - self.target) / self.distance
        right = np.cross(self.axes[2], back)
        right /= np.linalg.norm(right)
        return np.stack([right, np.cross(back, right), back])

    @property
    def focal(self) -> float:
        """Focal length in pixels."""
        width, height = self.size
        return 0.5 * height / np.tan(0.5 * _FIELD * max(1.0, height / width))

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (n, 2) and depth (n,) of points; those behind the eye have a depth that is not positive."""
        relative = (points - self.eye) @ self.view.T
        depth = -relative[:, 2]
        scale = self.focal / np.where(depth > 1e-12, depth, np.inf)
        width, height = self.size
        return np.stack([width / 2 + relative[:, 0] * scale, height / 2 - relative[:, 1] * scale], axis=1), depth

    def rays(self) -> np.ndarray:
        """Directions of all pixels, shape (height, width, 3), with depth one."""
        width, height = self.size
        x = (np.arange(width) + 0.5 - width / 2) / self.focal
        y = (height / 2 - np.arange(height) - 0.5) / self.focal
        right, up, back = self.view
        return x[None, :, None] * right + y[:, None, None] * up - back


class GBuffer:
    """Geometry buffer: nearness, normal and colour of the nearest surface at each pixel.

    - `nearness`: (pixels,), one over the depth, zero where nothing is. - `normal`, `colour`: (pixels, 3).
    """

    def __init__(self, camera: Camera) -> None:
        self.camera = camera
        width, height = camera.size
        self.nearness = np.zeros(width * height)
        self.normal = np.zeros((width * height, 3), dtype=np.float32)
        self.colour = np.zeros((width * height, 3), dtype=np.float32)
        self._pixels: list[np.ndarray] = []

    @property
    def pixels(self) -> np.ndarray:
        """Numbers of the covered pixels; some may occur twice."""
        return np.concatenate(self._pixels) if self._pixels else np.zeros(0, dtype=int)

    @property
    def depth(self) -> np.ndarray:
        """Depth of the nearest surface, (pixels,), infinite where nothing is."""
        with np.errstate(divide="ignore"):
            return 1 / self.nearness

    def triangles(self, vertices: np.ndarray, normals: np.ndarray, colours: np.ndarray, faces: np.ndarray) -> None:
        """Draws triangles whose vertices have normals and colours, all (n, 3)."""
        pixels, depth = self.camera.project(vertices)
        faces = faces[np.all(depth[faces] > _NEAREST, axis=1)]
        corners, near = pixels[faces], 1 / depth[faces]
        affine = _affine(corners)
        # Perspective projection keeps lines straight, and makes 1/depth affine in the pixels.
        falls = np.einsum("mi,mij->mj", near, affine)
        least, most = near.min(axis=1), near.max(axis=1)
        width = self.camera.size[0]
        scanlines, depth_test = scanline.of_triangles(corners, self.camera.size), _DepthTest(self.nearness)
        for span, x, pixel in scanlines.pixels(width):
            face = scanlines.which[span]
            along = falls[scanlines.which, 1] * (scanlines.row + 0.5) + falls[scanlines.which, 2]
            value = falls[face, 0] * (x + 0.5) + along[span]
            depth_test.add(pixel, np.clip(value, least[face], most[face]), face)
        pixel, face = depth_test.visible()
        self._pixels.append(pixel)
        place = np.stack([pixel % width + 0.5, pixel // width + 0.5, np.ones(len(pixel))], axis=1)
        weights = np.clip(np.einsum("pij,pj->pi", affine[face], place), 0, 1) * near[face]
        weights /= weights.sum(axis=1, keepdims=True)
        self.normal[pixel] = np.einsum("pi,pij->pj", weights, normals[faces[face]])
        self.colour[pixel] = np.einsum("pi,pij->pj", weights, colours[faces[face]])

    def spheres(self, centres: np.ndarray, radii: np.ndarray, colour: np.ndarray) -> None:
        """Draws spheres of one colour."""
        places, depth = self.camera.project(centres)
        right, up, back = self.camera.view
        good = depth > radii
        places, depth, radii = places[good], depth[good], radii[good]
        reach = radii * self.camera.focal / depth
        scanlines, depth_test = scanline.of_discs(places, reach, self.camera.size), _DepthTest(self.nearness)
        width = self.camera.size[0]
        for span, x, pixel in scanlines.pixels(width):
            ball = scanlines.which[span]
            _, _, high = _on_ball(x + 0.5 - places[ball, 0], places[ball, 1] - scanlines.row[span] - 0.5, reach[ball])
            depth_test.add(pixel, 1 / (depth[ball] - radii[ball] * high), ball)
        pixel, ball = depth_test.visible()
        self._pixels.append(pixel)
        x, y, high = _on_ball(
            pixel % width + 0.5 - places[ball, 0], places[ball, 1] - pixel // width - 0.5, reach[ball]
        )
        self.normal[pixel] = x[:, None] * right + y[:, None] * up + high[:, None] * back
        self.colour[pixel] = colour

    def over(self, background: np.ndarray) -> np.ndarray:
        """Shades the pixels into a background (height, width, 3) and returns it; lit from above and beside the eye."""
        width, height = self.camera.size
        picture = background.reshape(-1, 3)
        hit = self.pixels
        up, back = (axis.astype(np.float32) for axis in (self.camera.axes[2], self.camera.view[2]))
        n = self.normal[hit]
        n /= np.maximum(np.sqrt(np.einsum("pi,pi->p", n, n)), 1e-12)[:, None]
        n *= np.where(n @ back < 0, np.float32(-1), np.float32(1))[:, None]
        light = back + 1.1 * up + 0.5 * np.cross(up, back)
        light /= np.linalg.norm(light)
        half = (light + back) / np.linalg.norm(light + back)
        shine = 0.14 * np.maximum(n @ half, 0.0) ** 40
        bright = 0.46 + 0.11 * (1 + n @ up) + 0.42 * np.maximum(n @ light, 0.0)
        picture[hit] = np.clip(self.colour[hit] * bright[:, None] + shine[:, None], 0, 1)
        return picture.reshape(height, width, 3)


def covered_pixels(camera: Camera, vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Numbers of the pixels that some triangles cover."""
    pixels, depth = camera.project(vertices)
    faces = faces[np.all(depth[faces] > _NEAREST, axis=1)]
    return scanline.of_triangles(pixels[faces], camera.size).covered_pixels(camera.size[0])


class _DepthTest:
    """Depth test of shapes that are drawn together, against each other and the buffer."""

    def __init__(self, nearness: np.ndarray) -> None:
        self._nearness = nearness
        self._owner = np.zeros(len(nearness), dtype=np.int32)
        self._first, self._end = len(nearness), 0

    def add(self, pixel: np.ndarray, value: np.ndarray, owner: np.ndarray) -> None:
        """Adds candidates: pixels, one over their depths, and numbers of their shapes."""
        nearer = np.flatnonzero(value > self._nearness[pixel])
        pixel, value = pixel[nearer], value[nearer]
        np.maximum.at(self._nearness, pixel, value)
        winners = np.flatnonzero(value == self._nearness[pixel])
        self._owner[pixel[winners]] = owner[nearer[winners]] + 1
        if len(pixel):
            self._first, self._end = min(self._first, int(pixel.min())), max(self._end, int(pixel.max()) + 1)

    def visible(self) -> tuple[np.ndarray, np.ndarray]:
        """Pixels, and the number of the visible shape at each."""
        pixel = self._first + np.flatnonzero(self._owner[self._first : self._end])
        return pixel, self._owner[pixel] - 1


def _affine(corners: np.ndarray) -> np.ndarray:
    """Weights of the corners of triangles (m, 3, 2) as rows (a, b, c) of a x + b y + c, shape (m, 3, 3)."""
    x, y = corners[..., 0], corners[..., 1]
    j, k = [1, 2, 0], [2, 0, 1]
    rows = np.stack([y[:, j] - y[:, k], x[:, k] - x[:, j], x[:, j] * y[:, k] - x[:, k] * y[:, j]], axis=2)
    area = rows[..., 2].sum(axis=1)
    return rows / np.where(np.abs(area) > 1e-12, area, np.inf)[:, None, None]


def _on_ball(x: np.ndarray, y: np.ndarray, reach: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """To the right, up and towards the eye, in radii."""
    x, y = x / reach, y / reach
    return x, y, np.sqrt(np.maximum(1 - x * x - y * y, 0.0))
