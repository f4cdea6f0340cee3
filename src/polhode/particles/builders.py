"""Where particles are and which are bonded: chains, rings, lattices, and files."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy

from polhode import checks
from polhode.checks import short_repr


class Layout(NamedTuple):
    """Particles before they get masses and materials: `Particles(..., positions=layout.positions, pairs=layout.pairs)`.

    - `positions`: shape (n, 3). - `diameters`: shape (n,). - `pairs`: bonds, shape (m, 2).
    """

    positions: np.ndarray
    diameters: np.ndarray
    pairs: np.ndarray


def chain(n: int, diameter: float = 1.0, start: Any = (0.0, 0.0, 0.0), direction: Any = (1.0, 0.0, 0.0)) -> Layout:
    """n particles in a row that touch, each bonded to the next; the first one at `start`."""
    n = checks.count("n", n, "particles of a chain")
    diameter = float(checks.positive("diameter", diameter, (), "diameter of the particles"))
    along = np.asarray(checks.array("direction", direction, (3,), "direction of the chain"))
    if not np.any(along):
        raise ValueError(f"`direction` must not be zero (direction of the chain), got {short_repr(direction)}.")
    origin = np.asarray(checks.array("start", start, (3,), "centre of the first particle"))
    x = origin + diameter * np.arange(n)[:, None] * along / np.linalg.norm(along)
    return Layout(x, np.full(n, diameter), np.stack((np.arange(n - 1), np.arange(1, n)), axis=1))


def torus(n: int = 80, diameter: float = 3.0, centre: Any = (0.0, 0.0, 0.0)) -> Layout:
    """A ring in the plane of e₁ and e₂ of n particles that touch, centres on a circle of this diameter.

    Particle i is at the angle 2π(i+½)/n from e₁; each is bonded to the next, with a diameter D sin(π/n).
    """
    n = checks.count("n", n, "particles of a torus")
    if n < 3:
        raise ValueError(f"`n` must be at least 3 (particles of a torus), got {n}.")
    D = float(checks.positive("diameter", diameter, (), "diameter of the torus"))
    angle = 2 * np.pi * (np.arange(n) + 0.5) / n
    circle = np.stack((np.cos(angle), np.sin(angle), np.zeros(n)), axis=1)
    middle = np.asarray(checks.array("centre", centre, (3,), "centre of the torus"))
    pairs = np.stack((np.arange(n), (np.arange(n) + 1) % n), axis=1)
    return Layout(middle + 0.5 * D * circle, np.full(n, D * np.sin(np.pi / n)), pairs)


def block(
    shape: tuple[int, int, int], diameter: float = 1.0, corner: Any = (0.0, 0.0, 0.0), diagonals: bool = False
) -> Layout:
    """A cubic lattice of particles that touch, bonded to their six neighbours, the first one at `corner`.

    `diagonals` adds bonds along the diagonals of faces, without which a lattice shears easily.
    """
    edges = checks.as_list("shape", shape, "particles along each edge")
    counts = [checks.count("shape", k, "particles along each edge") for k in edges]
    if len(counts) != 3:
        raise ValueError(f"`shape` must be three numbers of particles, got {short_repr(shape)}.")
    diameter = float(checks.positive("diameter", diameter, (), "diameter of the particles"))
    origin = np.asarray(checks.array("corner", corner, (3,), "centre of the first particle"))
    number = np.arange(int(np.prod(counts))).reshape(counts)
    x = np.stack(np.meshgrid(*(np.arange(k) for k in counts), indexing="ij"), axis=-1).reshape(-1, 3)
    steps = [(1, 0, 0), (0, 1, 0), (0, 0, 1)]
    if diagonals:
        steps += [(1, 1, 0), (1, -1, 0), (1, 0, 1), (1, 0, -1), (0, 1, 1), (0, 1, -1)]
    pairs = [_lattice_pairs(number, step) for step in steps]
    return Layout(origin + diameter * x, np.full(number.size, diameter), np.concatenate(pairs))


def _lattice_pairs(number: np.ndarray, step: tuple[int, int, int]) -> np.ndarray:
    """Pairs of lattice points that are one step apart."""
    here = tuple(slice(max(0, -k), size - max(0, k)) for k, size in zip(step, number.shape, strict=True))
    there = tuple(slice(max(0, k), size - max(0, -k)) for k, size in zip(step, number.shape, strict=True))
    return np.stack((number[here].reshape(-1), number[there].reshape(-1)), axis=1)


def rotate(positions: np.ndarray, rotation_vector: Any) -> np.ndarray:
    """Positions rotated about their centre."""
    middle = positions.mean(axis=0)
    return middle + scipy.spatial.transform.Rotation.from_rotvec(np.array(rotation_vector)).apply(positions - middle)


def matrices(quaternions: np.ndarray) -> np.ndarray:
    """Rotation matrices of unit quaternions (w, x, y, z), shape (n, 4)."""
    return scipy.spatial.transform.Rotation.from_quat(np.roll(quaternions, -1, axis=1)).as_matrix()


def packing(file: str | Path, gap: float = 0.05) -> Layout:
    """Particles from a text file with lines `x y z diameter`, separated by blanks or commas; # starts a comment.

    Particles are bonded whose surfaces are closer than `gap` times the mean of their diameters.

    Raises ValueError, naming the line, for what isn't four numbers.
    """
    path = checks.path("file", file)
    try:
        text = path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise ValueError(f"`{path}` can't be read: {error}.") from error
    rows = []
    for number, line in enumerate(text.splitlines(), 1):
        words = line.split("#")[0].replace(",", " ").split()
        if not words:
            continue
        try:
            row = [float(word) for word in words]
        except ValueError:
            row = []
        if len(row) != 4 or not np.all(np.isfinite(row)) or not row[3] > 0:
            raise ValueError(f"Line {number} of `{path}` must be `x y z diameter`, got {line.strip()[:80]!r}.")
        rows.append(row)
    if not rows:
        raise ValueError(f"`{path}` holds no particles; lines are `x y z diameter`.")
    table = np.array(rows)
    x, diameters = table[:, :3], table[:, 3]
    near = scipy.spatial.KDTree(x).query_pairs((1 + gap) * diameters.max(), output_type="ndarray").reshape(-1, 2)
    distance = np.linalg.norm(x[near[:, 0]] - x[near[:, 1]], axis=1)
    reach = 0.5 * (diameters[near[:, 0]] + diameters[near[:, 1]])
    pairs = near[distance < (1 + gap) * reach]
    return Layout(x, diameters, pairs[np.lexsort(pairs.T[::-1])])
