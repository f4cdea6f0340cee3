"""Volume and moments of a union of balls, by quadrature over slices whose outlines are arcs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(24)
"""On an arc the integrands are polynomials of degree 4 in sines and cosines: exact to round-off up to a whole turn."""

_TOLERANCE = 1e-11


class BodyMoments(NamedTuple):
    """∫ dV, ∫ x dV and ∫ x ⊗ x dV."""

    volume: float
    first: np.ndarray
    second: np.ndarray


def moments_of_sum(centres: np.ndarray, radii: np.ndarray) -> BodyMoments:
    """Of balls that each count in full, where they overlap as well."""
    volumes = 4 / 3 * np.pi * radii**3
    second = np.einsum("n,ni,nj->ij", volumes, centres, centres) + np.eye(3) * np.sum(0.2 * volumes * radii**2)
    return BodyMoments(float(volumes.sum()), volumes @ centres, second)


def moments_of_union(centres: np.ndarray, radii: np.ndarray) -> BodyMoments:
    """Of the union of balls: what is in several counts once. Relative errors are about 1e-10."""
    if len(radii) == 1:
        return moments_of_sum(centres, radii)
    middle = 0.5 * ((centres - radii[:, None]).min(axis=0) + (centres + radii[:, None]).max(axis=0))
    size = float(np.max(np.abs(centres - middle) + radii[:, None]))
    x, r = (centres - middle) / size, radii / size
    levels = _levels(x, r)
    count = len(levels) - 1

    def at(s: float) -> np.ndarray:
        # Outlines begin like a power of 3/2 of the height above a level, which is smooth in s.
        k = min(int(s), count - 1)
        f, rise = s - k, levels[k + 1] - levels[k]
        return 6 * f * (1 - f) * rise * _slice(x, r, levels[k] + rise * f * f * (3 - 2 * f))

    tolerance = {"epsabs": _TOLERANCE, "epsrel": _TOLERANCE, "norm": "max"}
    integral = scipy.integrate.quad_vec(at, 0, count, points=range(1, count), limit=20_000, **tolerance)[0]
    V, a, xx, yy, zz, xy, xz, yz = integral[0], integral[1:4], *integral[4:]
    second = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
    volume, first = V * size**3, a * size**4
    shift = np.outer(middle, first)
    second = second * size**5 + shift + shift.T + volume * np.outer(middle, middle)
    return BodyMoments(float(volume), first + volume * middle, second)


def _levels(x: np.ndarray, r: np.ndarray) -> np.ndarray:
    """Heights at which outlines of slices change: ends of balls and of the circles in which two of them meet."""
    levels = [*(x[:, 2] - r), *(x[:, 2] + r)]
    for i in range(len(r)):
        for j in range(i):
            d = x[j] - x[i]
            length = np.linalg.norm(d)
            if not abs(r[i] - r[j]) < length < r[i] + r[j]:
                continue
            along = 0.5 * (length**2 + r[i] ** 2 - r[j] ** 2) / length
            height = x[i, 2] + along * d[2] / length
            reach = np.sqrt((r[i] ** 2 - along**2) * max(1 - (d[2] / length) ** 2, 0.0))
            levels += [height - reach, height + reach]
    levels = np.unique(levels)
    return levels[np.concatenate(([True], np.diff(levels) > 1e-12))]


def _slice(x: np.ndarray, r: np.ndarray, z: float) -> np.ndarray:
    """∫ of 1, x, y, z, xx, yy, zz, xy, xz, yz over the union of discs at a height, by Green's theorem."""
    square = r**2 - (z - x[:, 2]) ** 2
    cut = square > 0
    c, rho = x[cut, :2], np.sqrt(square[cut])
    arcs = [(c[i], rho[i], *arc) for i in range(len(rho)) for arc in _open_arcs(c, rho, i)]
    if not arcs:
        return np.zeros(10)
    places, radii, first, last = map(np.array, zip(*arcs, strict=True))
    half = 0.5 * (last - first)[:, None]
    angle = 0.5 * (first + last)[:, None] + half * _NODES
    weight = half * _WEIGHTS
    cos, sin = radii[:, None] * np.cos(angle), radii[:, None] * np.sin(angle)
    u, w = places[:, :1] + cos, places[:, 1:] + sin
    du, dw = -sin * weight, cos * weight
    area, a, b = np.sum(u * dw), 0.5 * np.sum(u * u * dw), -0.5 * np.sum(w * w * du)
    aa, bb, ab = np.sum(u**3 * dw) / 3, -np.sum(w**3 * du) / 3, 0.5 * np.sum(u * u * w * dw)
    return np.array([area, a, b, z * area, aa, bb, z * z * area, ab, z * a, z * b])


def _open_arcs(c: np.ndarray, rho: np.ndarray, i: int) -> list[tuple[float, float]]:
    """Arcs of circle i, from angle to angle, that are inside no other disc."""
    d = c - c[i]
    length = np.linalg.norm(d, axis=1)
    others = np.arange(len(rho)) != i
    # Of discs that coincide the first one has the outline.
    same = (length == 0) & (rho == rho[i])
    if np.any(others & (length + rho[i] <= rho) & ~(same & (np.arange(len(rho)) > i))):
        return []
    meet = others & (length < rho + rho[i]) & (length > np.abs(rho - rho[i]))
    if not np.any(meet):
        return [(0.0, 2 * np.pi)]
    d, length, other = d[meet], length[meet], rho[meet]
    share = 0.5 * (length**2 + rho[i] ** 2 - other**2) / (length * rho[i])
    half = np.arccos(np.clip(share, -1.0, 1.0))
    begin = np.mod(np.arctan2(d[:, 1], d[:, 0]) - half, 2 * np.pi)
    order = np.argsort(begin)
    begin, end = begin[order], (begin + 2 * half)[order]
    # Once around from where the first one begins: what reaches beyond a turn covers the start of the next.
    reach, arcs = max(end[0], np.max(end) - 2 * np.pi), []
    for first, last in zip(begin[1:], end[1:], strict=True):
        if first > reach:
            arcs.append((reach, first))
        reach = max(reach, last)
    if reach < begin[0] + 2 * np.pi:
        arcs.append((reach, begin[0] + 2 * np.pi))
    return arcs
