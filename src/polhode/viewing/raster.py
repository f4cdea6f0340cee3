"""Pictures of triangles and spheres, drawn by NumPy: no display, no graphics card, the same everywhere.

Every pixel that a triangle may cover is listed, tested against its edges, and the nearest one at each pixel is shaded.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator

import numpy as np

_MOST = 3_000_000
"""Pixels that are looked at together."""
_FIELD = 0.6
"""Vertical field of view in radians, as in the page."""


@dataclasses.dataclass(frozen=True)
class Camera:
    """Seen from a distance around a target.

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
        """Where it stands."""
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
        """Pixels of what is as large as it is far away."""
        width, height = self.size
        return 0.5 * height / np.tan(0.5 * _FIELD * max(1.0, height / width))

    def project(self, points: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Pixels (n, 2) and depth (n,) of points; those behind the eye have a depth that is not positive."""
        seen = (points - self.eye) @ self.view.T
        depth = -seen[:, 2]
        scale = self.focal / np.where(depth > 1e-12, depth, np.inf)
        width, height = self.size
        return np.stack([width / 2 + seen[:, 0] * scale, height / 2 - seen[:, 1] * scale], axis=1), depth

    def rays(self) -> np.ndarray:
        """Directions of all pixels, shape (height, width, 3), with depth one."""
        width, height = self.size
        x = (np.arange(width) + 0.5 - width / 2) / self.focal
        y = (height / 2 - np.arange(height) - 0.5) / self.focal
        right, up, back = self.view
        return x[None, :, None] * right + y[:, None, None] * up - back


class Canvas:
    """Depth, normal and colour of the nearest surface at each pixel.

    - `depth`: (pixels,), infinite where nothing is. - `normal`, `colour`: (pixels, 3).
    """

    def __init__(self, camera: Camera) -> None:
        self.camera = camera
        width, height = camera.size
        self.depth = np.full(width * height, np.inf)
        self.normal = np.zeros((width * height, 3), dtype=np.float32)
        self.colour = np.zeros((width * height, 3), dtype=np.float32)

    def triangles(self, vertices: np.ndarray, normals: np.ndarray, colours: np.ndarray, faces: np.ndarray) -> None:
        """Draws triangles whose vertices have normals and colours, all (n, 3)."""
        pixels, depth = self.camera.project(vertices)
        for pixel, face, weights, z in _covered(pixels, depth, faces, self.camera.size):
            nearer = z < self.depth[pixel]
            pixel, face, weights, z = pixel[nearer], face[nearer], weights[nearer], z[nearer]
            pixel, chosen = _nearest(pixel, z)
            corners, weights = faces[face[chosen]], weights[chosen]
            self._keep(
                pixel,
                z[chosen],
                np.einsum("pi,pij->pj", weights, normals[corners]),
                np.einsum("pi,pij->pj", weights, colours[corners]),
            )

    def spheres(self, centres: np.ndarray, radii: np.ndarray, colour: np.ndarray) -> None:
        """Draws spheres of one colour."""
        places, depth = self.camera.project(centres)
        right, up, back = self.camera.view
        for pixel, which, x, y in _discs(places, depth, radii, self.camera):
            high = np.sqrt(np.maximum(1 - x * x - y * y, 0.0))
            z = depth[which] - radii[which] * high
            nearer = z < self.depth[pixel]
            pixel, chosen = _nearest(pixel[nearer], z[nearer])
            rows = np.flatnonzero(nearer)[chosen]
            normal = x[rows, None] * right + y[rows, None] * up + high[rows, None] * back
            self._keep(pixel, z[rows], normal, np.broadcast_to(colour, normal.shape))

    def _keep(self, pixel: np.ndarray, z: np.ndarray, normal: np.ndarray, colour: np.ndarray) -> None:
        self.depth[pixel], self.normal[pixel], self.colour[pixel] = z, normal, colour

    def over(self, background: np.ndarray) -> np.ndarray:
        """Draws into a background (height, width, 3) and returns it; light comes from above and beside the eye."""
        width, height = self.camera.size
        picture = background.reshape(-1, 3)
        hit = np.flatnonzero(np.isfinite(self.depth))
        up, back = self.camera.axes[2], self.camera.view[2]
        n = self.normal[hit]
        n /= np.maximum(np.linalg.norm(n, axis=1, keepdims=True), 1e-12)
        n *= np.where(n @ back < 0, -1.0, 1.0)[:, None]
        light = back + 1.1 * up + 0.5 * np.cross(up, back)
        light /= np.linalg.norm(light)
        half = (light + back) / np.linalg.norm(light + back)
        shine = 0.14 * np.maximum(n @ half, 0.0) ** 40
        bright = 0.46 + 0.11 * (1 + n @ up) + 0.42 * np.maximum(n @ light, 0.0)
        picture[hit] = np.clip(self.colour[hit] * bright[:, None] + shine[:, None], 0, 1)
        return picture.reshape(height, width, 3)


def covered(camera: Camera, vertices: np.ndarray, faces: np.ndarray) -> np.ndarray:
    """Which pixels some triangles cover, shape (height, width)."""
    width, height = camera.size
    found = np.zeros(width * height, dtype=bool)
    pixels, depth = camera.project(vertices)
    for pixel, *_ in _covered(pixels, depth, faces, camera.size):
        found[pixel] = True
    return found.reshape(height, width)


def _nearest(pixel: np.ndarray, z: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Different pixels, and of each the candidate that is nearest."""
    order = np.lexsort((z, pixel))
    sorted_ = pixel[order]
    first = np.r_[True, sorted_[1:] != sorted_[:-1]] if len(sorted_) else np.zeros(0, bool)
    return sorted_[first], order[first]


def _boxes(low: np.ndarray, high: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray]]:
    """Which box, x and y of all pixels in boxes, some boxes at a time."""
    sides = np.maximum(high - low, 0)
    counts = sides[:, 0] * sides[:, 1]
    kept = np.flatnonzero(counts)
    ends = np.cumsum(counts[kept])
    start = 0
    while start < len(kept):
        done = ends[start - 1] if start else 0
        stop = max(start + 1, int(np.searchsorted(ends, done + _MOST, side="right")))
        part = kept[start:stop]
        which = np.repeat(part, counts[part])
        place = np.arange(len(which)) - np.repeat(np.cumsum(counts[part]) - counts[part], counts[part])
        yield which, low[which, 0] + place % sides[which, 0], low[which, 1] + place // sides[which, 0]
        start = stop


def _covered(
    pixels: np.ndarray, depth: np.ndarray, faces: np.ndarray, size: tuple[int, int]
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Pixel, face, weights of its corners and depth of all pixels whose centres lie in triangles."""
    width, height = size
    faces_at = np.flatnonzero(np.all(depth[faces] > 1e-9, axis=1))
    corners = pixels[faces[faces_at]]
    low = np.clip(np.floor(corners.min(axis=1)), 0, [width, height]).astype(int)
    high = np.clip(np.ceil(corners.max(axis=1)), 0, [width, height]).astype(int)
    a, b, c = corners[:, 0], corners[:, 1], corners[:, 2]
    area = (b[:, 0] - a[:, 0]) * (c[:, 1] - a[:, 1]) - (b[:, 1] - a[:, 1]) * (c[:, 0] - a[:, 0])
    high[np.abs(area) < 1e-12] = 0
    inverse = 1 / np.where(depth > 0, depth, 1.0)
    for which, x, y in _boxes(low, high):
        px, py = x + 0.5, y + 0.5
        A, B, C, size_ = a[which], b[which], c[which], area[which]
        v = ((px - A[:, 0]) * (C[:, 1] - A[:, 1]) - (py - A[:, 1]) * (C[:, 0] - A[:, 0])) / size_
        w = ((B[:, 0] - A[:, 0]) * (py - A[:, 1]) - (B[:, 1] - A[:, 1]) * (px - A[:, 0])) / size_
        inside = (v >= 0) & (w >= 0) & (v + w <= 1)
        which, v, w = faces_at[which[inside]], v[inside], w[inside]
        # What is straight in space is straight in the picture only divided by depth.
        weights = np.stack([1 - v - w, v, w], axis=1) * inverse[faces[which]]
        z = 1 / weights.sum(axis=1)
        yield y[inside] * width + x[inside], which, weights * z[:, None], z


def _discs(
    places: np.ndarray, depth: np.ndarray, radii: np.ndarray, camera: Camera
) -> Iterator[tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]]:
    """Pixel, sphere, and place in its disc, in radii to the right and up."""
    width, height = camera.size
    good = depth > radii
    reach = np.where(good, radii * camera.focal / np.where(good, depth, 1.0), 0.0)[:, None]
    low = np.clip(np.floor(places - reach), 0, [width, height]).astype(int)
    high = np.clip(np.ceil(places + reach), 0, [width, height]).astype(int)
    high[~good] = 0
    for which, px, py in _boxes(low, high):
        x = (px + 0.5 - places[which, 0]) / reach[which, 0]
        y = (places[which, 1] - py - 0.5) / reach[which, 0]
        inside = x * x + y * y <= 1
        yield (py * width + px)[inside], which[inside], x[inside], y[inside]
