"""Walls of triangles: closest points, and contacts that are counted once across edges and corners."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode import checks
from polhode.particles.laws.contact_law import History
from polhode.particles.walls import FAR, AbstractWall, Approach, Encounter
from polhode.result_codes import Result
from polhode.spaces.component_arrays import Vectors, add_scaled, columns, dot, scale, select, subtract

_SAME = 1e-9
"""Distance of points that coincide, relative to the radius, and largest cosine of directions that are normal."""

_CELLS = 2_000_000
"""Cells of the largest table; cells are made larger beyond."""

_MERGE = 1e-9
"""Distance of corners that are one, relative to the extent of the mesh."""


_FACET = np.dtype([("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("more", "<u2")])
"""A triangle of a binary STL file."""


class MeshMemory(NamedTuple):
    """Contacts of spheres with a mesh, with arrays of shape (contacts, n), in the frame in which it rests.

    - `triangle`: number, -1 for none. - `distance`, `normal`: of the centre from the point of contact.
    """

    triangle: Int[Array, "contacts n"]
    distance: Array
    normal: Vectors
    history: History


class Cells(NamedTuple):
    """Which triangles are within reach of the points of a cell; cells fill a box around the mesh.

    - `reach`: of the centres. - `low`, `size`: its corner, shape (3,), and the edge of a cell.
    - `counts`: cells along the axes.
    - `first`: where the triangles of each cell begin in `triangles`, shape (cells + 2,); the last cell is empty.
    """

    reach: Float[Array, ""]
    low: Float[Array, "3"]
    size: Float[Array, ""]
    counts: Int[Array, "3"]
    first: Int[Array, " k"]
    triangles: Int[Array, " m"]


class Mesh(AbstractWall):
    """A wall of triangles, which spheres touch from both sides. Its contacts need a `ContactLaw`.

    A sphere touches wherever the distance of its centre from the mesh has a minimum within the radius: on a triangle,
    an edge or a corner. A minimum on an edge or at a corner is one contact, whatever number of triangles meet there,
    and a contact that moves to another triangle takes its history along: spheres roll across edges of plane parts as on
    a plane. Triangles have to meet in whole edges, as those of STL files do.

    Cells around the mesh know the triangles within reach, so the cost of a sphere doesn't grow with their number. A
    sphere whose centre passes through a triangle that it touches ends the run with `lost_particles`, one with more
    contacts than there is room for with `too_many_neighbours`.

    **Arguments:**

    - `vertices`: corners, shape (k, 3). - `triangles`: numbers of the corners of each, shape (m, 3).
    - `contacts`: room for contacts of a sphere.

    Raises ValueError for other shapes, numbers that don't exist, triangles without an area, and more than two that
    share an edge.
    """

    vertices: Float[Array, "k 3"]
    triangles: Int[Array, "m 3"]
    beyond: Float[Array, "m 3 3"]
    spokes: Float[Array, "k valence 3"]
    cells: Cells | None
    contacts: int = eqx.field(static=True)

    def __init__(self, vertices: Any, triangles: Any, contacts: int = 4) -> None:
        x = checks.numbers("vertices", vertices, "corners of the mesh").astype(float)
        which = checks.numbers("triangles", triangles, "three corners of each triangle")
        if x.ndim != 2 or x.shape[1:] != (3,) or not np.isfinite(x).all():
            raise ValueError(f"`vertices` must have shape (k, 3), finite numbers, got shape {x.shape}.")
        if which.ndim != 2 or which.shape[1:] != (3,) or not len(which):
            raise ValueError(f"`triangles` must have shape (m, 3), got {which.shape}.")
        if np.any(which != which.astype(int)) or which.min() < 0 or which.max() >= len(x):
            raise ValueError(f"`triangles` must be numbers of vertices from 0 to {len(x) - 1}.")
        x, which = _merge(x, which.astype(int))
        _check_areas(x, which)
        self.vertices, self.triangles = jnp.asarray(x), jnp.asarray(which, jnp.int32)
        self.beyond, self.spokes = jnp.asarray(_beyond(x, which)), jnp.asarray(_spokes(x, which))
        self.cells = None
        self.contacts = checks.count("contacts", contacts, "room for contacts of a sphere")

    @staticmethod
    def load(file: str | Path, unit: float = 1.0, contacts: int = 4) -> Mesh:
        """The mesh of an STL file, binary or text, times `unit`, the length of its unit: 1e-3 for millimetres.

        Raises ValueError, with the reason, for files that can't be read.
        """
        path = checks.path("file", file)
        factor = float(checks.positive("unit", unit, (), "length of the unit of the file"))
        try:
            corners = factor * _stl_corners(path.read_bytes())
        except (OSError, ValueError) as error:
            raise ValueError(f"`{path}` can't be read as an STL file: {error}") from error
        if not len(corners):
            raise ValueError(f"`{path}` holds no triangles.")
        return Mesh(corners, np.arange(len(corners)).reshape(-1, 3), contacts)

    @property
    def needs_law(self) -> bool:
        return True

    def prepare(self, reach: Array) -> Mesh:
        if not checks.is_concrete(reach, self.vertices):
            raise ValueError("Cells of a mesh depend on diameters and corners; make the system outside jit and grad.")
        cells = _cells(np.asarray(self.vertices)[np.asarray(self.triangles)], float(reach))
        return eqx.tree_at(lambda m: m.cells, self, cells, is_leaf=lambda a: a is None)

    def start(self, law: Any, n: int, dtype: Any) -> MeshMemory:
        shape = (self.contacts, n)
        zero = jnp.zeros(shape, dtype)
        return MeshMemory(jnp.full(shape, -1, jnp.int32), zero, (zero,) * 3, law.start(shape, dtype))

    def meet(self, x0: Vectors, x: Vectors, radius: Array, memory: MeshMemory, active: Any = True) -> Encounter:
        code = jnp.zeros((), jnp.int32)
        n, kind = x[0].shape[0], x[0].dtype
        assert self.cells is not None
        first, count = _of_cell(self.cells, x)
        count = jnp.where(active, count, 0)
        zero, far = jnp.zeros((self.contacts, n), kind), jnp.full((self.contacts, n), FAR, kind)
        apart = Approach(far, (zero,) * 3, far, (zero,) * 3, jax.tree.map(jnp.zeros_like, memory.history))
        none = jnp.full((self.contacts, n), -1, jnp.int32)
        longest = jnp.max(count)

        def near(memory: MeshMemory) -> tuple[Approach, Array, Array]:
            spots = self._spots(x, radius, (first, count, longest))
            return self._follow(spots, (x0, x), radius, memory)

        approach, triangle, code = jax.lax.cond(
            (longest > 0) | jnp.any(memory.triangle >= 0), near, lambda memory: (apart, none, code), memory
        )

        def remember(histories: tuple[Any, ...]) -> MeshMemory:
            return MeshMemory(triangle, approach.distance, approach.normal, histories[0])

        return Encounter((approach,), remember, code)

    # --- closest points ---------------------------------------------------------------------------------------------

    def _spots(self, x: Vectors, radius: Array, lists: tuple[Array, Array, Array]) -> _Spots:
        """The contacts at x: minima of the distance, each once."""
        first, count, longest = lists
        n, kind = x[0].shape[0], x[0].dtype
        corners, beyond = _flat(self.vertices[self.triangles], kind), _flat(self.beyond, kind)
        assert self.cells is not None
        listed = self.cells.triangles
        reach = self.cells.reach.astype(kind)

        def one(k: Array, spots: _Spots) -> _Spots:
            there = k < count
            j = listed[jnp.where(there, first + k, 0)]
            a, b, c = (select(corners[3 * i : 3 * i + 3], j) for i in range(3))
            p, weights = closest_point(x, a, b, c)
            d = subtract(x, p)
            square = dot(d, d)
            genuine = there & (square < reach * reach)
            slack = _SAME * jnp.sqrt(square)
            for i in range(3):
                # On the edge opposite to corner i no way into the next triangle may lead closer.
                leads = dot(d, select(beyond[3 * i : 3 * i + 3], j)) > slack
                genuine = genuine & ~((weights[i] <= 0) & leads)
            return spots.insert(genuine, j, p, d, (_SAME * radius) ** 2)

        C, far, zero = self.contacts, jnp.full((n,), FAR, kind), jnp.zeros((n,), kind)
        start = _Spots(
            (jnp.full((n,), -1, jnp.int32),) * C, ((far,) * 3,) * C, ((zero,) * 3,) * C, jnp.zeros((n,), jnp.int32)
        )
        spots = jax.lax.fori_loop(0, longest, one, start)
        return self._without_slopes(spots)

    def _without_slopes(self, spots: _Spots) -> _Spots:
        """Without corners from which an edge leads closer."""
        kind = spots.away[0][0].dtype
        corners, spokes = self.triangles, self.spokes.astype(kind)
        triangles = []
        for triangle, p, d in zip(spots.triangle, spots.at, spots.away, strict=True):
            j, falls = jnp.maximum(triangle, 0), jnp.zeros(triangle.shape, bool)
            slack = _SAME * jnp.sqrt(dot(d, d))
            for i in range(3):
                v = corners[j, i]
                off = subtract(p, columns(self.vertices.astype(kind)[v]))
                at_corner = dot(off, off) <= 0

                def one(k: Array, leads: Array, v: Array = v, d: Vectors = d, slack: Array = slack) -> Array:
                    return leads | (dot(d, columns(spokes[v, k])) > slack)

                leads = jax.lax.fori_loop(0, spokes.shape[1], one, jnp.zeros_like(falls))
                falls = falls | (at_corner & leads)
            triangles.append(jnp.where(falls, -1, triangle))
        return spots._replace(triangle=tuple(triangles))

    # --- history ------------------------------------------------------------------------------------------------------

    def _follow(
        self, spots: _Spots, ends: tuple[Vectors, Vectors], radius: Array, old: MeshMemory
    ) -> tuple[Approach, Array, Array]:
        """Approaches to the spots with the history of the same contacts, on the same triangle or on that before."""
        x0, x = ends
        approaches, passed = [], jnp.zeros((), bool)
        slots = range(self.contacts)
        was = [jax.tree.map(lambda a, k=k: a[k], old) for k in slots]
        old_points = [subtract(x0, scale(w.distance, w.normal)) for w in was]
        free = [
            (w.triangle >= 0) & ~_any([w.triangle == t for t in spots.triangle]) for w in was
        ]  # contacts whose triangle is left
        for triangle, p, d in zip(spots.triangle, spots.at, spots.away, strict=True):
            there = triangle >= 0
            length = jnp.sqrt(jnp.where(there, dot(d, d), 1.0))
            some = there & (length > 0)
            n = scale(jnp.where(some, 1 / jnp.where(some, length, 1.0), 0.0), d)
            distance = jnp.where(there, length, FAR)
            move = subtract(x, x0)
            before = jnp.where(there, length - dot(move, n), FAR)
            n0 = n
            history = jax.tree.map(jnp.zeros_like, was[0].history)
            open_ = there
            same = [there & (w.triangle == triangle) for w in was]
            for k, (w, point) in enumerate(zip(was, old_points, strict=True)):
                off = subtract(p, point)
                comes = there & ~_any(same) & free[k] & open_ & (dot(off, off) < 0.25 * radius * radius)
                match = same[k] | comes
                passed = passed | jnp.any(same[k] & (dot(n, w.normal) < 0))
                free[k], open_ = free[k] & ~match, open_ & ~match
                history = jax.tree.map(lambda a, b, m=match: jnp.where(m, a, b), w.history, history)
                before = jnp.where(match, w.distance, before)
                n0 = tuple(jnp.where(match, a, b) for a, b in zip(w.normal, n0, strict=True))
            approaches.append((Approach(distance, n, before, n0, history), triangle))
        stack = lambda *a: jnp.stack(a)  # noqa: E731
        approach, triangle = jax.tree.map(stack, *approaches)
        code = jnp.where(jnp.any(spots.count > self.contacts), int(Result.too_many_neighbours), 0)
        return approach, triangle, jnp.where(passed, int(Result.lost_particles), code).astype(jnp.int32)


class _Spots(NamedTuple):
    """Contacts in order of their discovery: triangle, point, vector from there to the centre; and their number."""

    triangle: tuple[Array, ...]
    at: tuple[Vectors, ...]
    away: tuple[Vectors, ...]
    count: Array

    def insert(self, genuine: Array, j: Array, p: Vectors, d: Vectors, same: Array) -> _Spots:
        """With another contact where it is genuine, unless there is one at that point."""
        for q in self.at:
            off = subtract(p, q)
            genuine = genuine & ~(dot(off, off) <= same)
        triangles, points, away = [], [], []
        for k, (t, q, e) in enumerate(zip(self.triangle, self.at, self.away, strict=True)):
            here = genuine & (self.count == k)
            triangles.append(jnp.where(here, j, t))
            points.append(tuple(jnp.where(here, a, b) for a, b in zip(p, q, strict=True)))
            away.append(tuple(jnp.where(here, a, b) for a, b in zip(d, e, strict=True)))
        return _Spots(tuple(triangles), tuple(points), tuple(away), self.count + genuine)


def closest_point(x: Vectors, a: Vectors, b: Vectors, c: Vectors) -> tuple[Vectors, tuple[Array, Array, Array]]:
    """The point of triangles closest to x, and its weights at the corners; on edges and at corners some are zero.

    ??? cite "Reference"
        C. Ericson, Real-Time Collision Detection, Morgan Kaufmann (2005), section 5.1.5.
    """
    ab, ac, ap = subtract(b, a), subtract(c, a), subtract(x, a)
    d1, d2 = dot(ab, ap), dot(ac, ap)
    bp, cp = subtract(x, b), subtract(x, c)
    d3, d4, d5, d6 = dot(ab, bp), dot(ac, bp), dot(ab, cp), dot(ac, cp)
    va, vb, vc = d3 * d6 - d5 * d4, d5 * d2 - d1 * d6, d1 * d4 - d3 * d2
    over = lambda y, z: y / jnp.where(z == 0, 1.0, z)  # noqa: E731
    inside = va + vb + vc
    v, w = over(vb, inside), over(vc, inside)
    regions = (
        (
            (va <= 0) & (d4 - d3 >= 0) & (d5 - d6 >= 0),
            1 - over(d4 - d3, d4 - d3 + d5 - d6),
            over(d4 - d3, d4 - d3 + d5 - d6),
        ),
        ((vb <= 0) & (d2 >= 0) & (d6 <= 0), 0.0, over(d2, d2 - d6)),
        ((vc <= 0) & (d1 >= 0) & (d3 <= 0), over(d1, d1 - d3), 0.0),
        ((d6 >= 0) & (d5 <= d6), 0.0, 1.0),
        ((d3 >= 0) & (d4 <= d3), 1.0, 0.0),
        ((d1 <= 0) & (d2 <= 0), 0.0, 0.0),
    )
    edge_a = jnp.zeros(d1.shape, bool)
    for k, (where, v1, w1) in enumerate(regions):
        v, w = jnp.where(where, v1, v), jnp.where(where, w1, w)
        edge_a = where | edge_a if k in (0, 3, 4) else edge_a & ~where
    u = jnp.where(edge_a, 0.0, 1 - v - w)
    p = add_scaled(add_scaled(a, v, ab), w, ac)
    # Corners exactly, so that all triangles there have one point.
    p = tuple(jnp.where(v == 1, q, r) for q, r in zip(b, p, strict=True))
    p = tuple(jnp.where(w == 1, q, r) for q, r in zip(c, p, strict=True))
    return p, (u, v, w)


def _any(parts: list[Array]) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total = total | part
    return total


def _flat(a: Array, kind: Any) -> tuple[Array, ...]:
    """Nine arrays of shape (m,) of an array (m, 3, 3)."""
    return columns(a.reshape(-1, 9).astype(kind))


def _of_cell(cells: Cells, x: Vectors) -> tuple[Array, Array]:
    """Where the lists of the cells of points begin, and how many triangles they have."""
    kind = x[0].dtype
    low, size = cells.low.astype(kind), cells.size.astype(kind)
    inside, number = jnp.ones(x[0].shape, bool), jnp.zeros(x[0].shape, jnp.int32)
    for k in range(3):
        i = jnp.floor((x[k] - low[k]) / size)
        inside = inside & (i >= 0) & (i < cells.counts[k])
        number = number * cells.counts[k] + jnp.clip(i, 0, cells.counts[k] - 1).astype(jnp.int32)
    number = jnp.where(inside, number, len(cells.first) - 2)
    first = cells.first[number]
    return first, cells.first[number + 1] - first


# --- once, by NumPy ---------------------------------------------------------------------------------------------------


def _stl_corners(content: bytes) -> np.ndarray:
    """Corners of the triangles, shape (3 m, 3)."""
    count = int.from_bytes(content[80:84], "little")
    if len(content) == 84 + count * _FACET.itemsize:
        return np.frombuffer(content, _FACET, offset=84)["corners"].astype(float).reshape(-1, 3)
    lines = (line.split() for line in content.decode("ascii").splitlines())
    corners = np.array([[float(word) for word in line[1:4]] for line in lines if line and line[0] == "vertex"])
    if corners.ndim != 2 or corners.shape[1] != 3 or len(corners) % 3:
        raise ValueError("it is neither binary STL nor text with three vertices of each facet.")
    return corners


def _merge(x: np.ndarray, which: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Corners at one place as one."""
    low, extent = x.min(axis=0), float(np.ptp(x, axis=0).max()) or 1.0
    grid = np.round((x - low) / (_MERGE * extent)).astype(np.int64)
    _, first, number = np.unique(grid, axis=0, return_index=True, return_inverse=True)
    return x[first], number.reshape(-1)[which]


def _check_areas(x: np.ndarray, which: np.ndarray) -> None:
    a, b, c = x[which].transpose(1, 0, 2)
    area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
    longest = np.maximum.reduce([np.sum((p - q) ** 2, axis=1) for p, q in ((a, b), (b, c), (c, a))])
    thin = area <= 1e-12 * longest
    if np.any(thin):
        raise ValueError(
            f"Triangle {int(np.argmax(thin))} of the mesh has no area (of {np.count_nonzero(thin)}). Leave such "
            "triangles out."
        )


def _beyond(x: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Direction across the edge opposite to each corner into the next triangle, along its plane; zero at the rim."""
    m = len(which)
    edges = np.sort(which[:, [[1, 2], [2, 0], [0, 1]]], axis=2).reshape(-1, 2)
    key = edges[:, 0] * (which.max() + 1) + edges[:, 1]
    order = np.argsort(key, kind="stable")
    _, start, count = np.unique(key[order], return_index=True, return_counts=True)
    if np.any(count > 2):
        ends = edges[order[start[int(np.argmax(count))]]]
        raise ValueError(
            f"{count.max()} triangles of the mesh share the edge from {x[ends[0]].tolist()} to {x[ends[1]].tolist()}; "
            "at most two may. Give the parts as meshes of their own."
        )
    inward = np.empty((m, 3, 3))
    for i in range(3):
        p, q, r = x[which[:, i]], x[which[:, (i + 1) % 3]], x[which[:, (i + 2) % 3]]
        along = (r - q) / np.linalg.norm(r - q, axis=1, keepdims=True)
        up = (p - q) - np.sum((p - q) * along, axis=1, keepdims=True) * along
        inward[:, i] = up / np.linalg.norm(up, axis=1, keepdims=True)
    result, inward = np.zeros((3 * m, 3)), inward.reshape(-1, 3)
    pairs = start[count == 2]
    one, two = order[pairs], order[pairs + 1]
    result[one], result[two] = inward[two], inward[one]
    return result.reshape(m, 3, 3)


def _spokes(x: np.ndarray, which: np.ndarray) -> np.ndarray:
    """Directions of the edges from each corner, shape (k, most, 3), padded with zeros."""
    pairs = np.unique(np.concatenate([which[:, [i, j]] for i in range(3) for j in range(3) if i != j]), axis=0)
    way = x[pairs[:, 1]] - x[pairs[:, 0]]
    way /= np.linalg.norm(way, axis=1, keepdims=True)
    number = np.bincount(pairs[:, 0], minlength=len(x))
    place = np.arange(len(pairs)) - (np.cumsum(number) - number)[pairs[:, 0]]
    spokes = np.zeros((len(x), int(number.max()), 3))
    spokes[pairs[:, 0], place] = way
    return spokes


def _cells(corners: np.ndarray, reach: float) -> Cells:
    """Cells with the triangles (m, 3, 3) that are within reach of some point of theirs."""
    low, high = corners.min(axis=1) - reach, corners.max(axis=1) + reach
    origin, top = low.min(axis=0), high.max(axis=0)
    size = max(reach, float(np.prod(top - origin) / _CELLS) ** (1 / 3))
    counts = np.floor((top - origin) / size).astype(int) + 1
    a, b, c = corners.transpose(1, 0, 2)
    normal = np.cross(b - a, c - a)
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    keys, members = [], []
    # A rounding more, so that points on the faces of cells miss nobody.
    far = 1.000001 * (reach + 0.5 * np.sqrt(3) * size)
    for k in range(len(corners)):
        first = np.floor((low[k] - origin) / size).astype(int)
        last = np.minimum(np.floor((high[k] - origin) / size).astype(int), counts - 1)
        grid = np.stack(
            np.meshgrid(*(np.arange(i, j + 1) for i, j in zip(first, last, strict=True)), indexing="ij"), -1
        )
        grid = grid.reshape(-1, 3)
        middle = origin + size * (grid + 0.5)
        grid = grid[np.abs((middle - a[k]) @ normal[k]) <= far]
        keys.append((grid[:, 0] * counts[1] + grid[:, 1]) * counts[2] + grid[:, 2])
        members.append(np.full(len(grid), k))
    key, member = np.concatenate(keys), np.concatenate(members)
    order = np.lexsort((member, key))
    number = np.bincount(key, minlength=int(np.prod(counts)))
    first = np.concatenate(([0], np.cumsum(number), [len(key)]))
    whole = lambda values: jnp.asarray(values, jnp.int32)  # noqa: E731
    return Cells(
        jnp.asarray(reach), jnp.asarray(origin), jnp.asarray(size), whole(counts), whole(first), whole(member[order])
    )
