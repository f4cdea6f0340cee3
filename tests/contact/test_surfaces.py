"""Boxes, cylinders, ellipsoids and hulls on surfaces of triangles, against planes and hulls."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

import polhode as ph
from polhode.compiler.native_jit import native_jit
from polhode.contact.distances import APART, ContactPoints, contact_points

HERE = (np.zeros(3), np.eye(3))
BOX = ph.shapes.Box((0.3, 0.25, 0.2))
CUBE = 0.5 * np.array([(x, y, z) for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)])


def grid(n: int, length: float, slope: float = 0.0) -> ph.shapes.TriangleMesh:
    """A square of n × n cells of two triangles, which rises along x."""
    faces = [
        face
        for a in ((n + 1) * i + j for i in range(n) for j in range(n))
        for face in ((a, a + n + 1, a + n + 2), (a, a + n + 2, a + 1))
    ]
    x, y = (each.ravel() for each in np.meshgrid(*[np.linspace(-0.5, 0.5, n + 1) * length] * 2, indexing="ij"))
    return ph.shapes.TriangleMesh(np.stack((x, y, slope * x), axis=1), np.array(faces))


def cube() -> ph.shapes.TriangleMesh:
    """A cube of edge 1 as a mesh whose triangles share their vertices."""
    corners = np.asarray(ph.shapes.ConvexMesh(CUBE).hull.corners).reshape(-1, 3)
    vertices, faces = np.unique(corners, axis=0, return_inverse=True)
    return ph.shapes.TriangleMesh(vertices, faces.reshape(-1, 3))


def evaluate(pair: Any, *poses: Any) -> ContactPoints:
    return contact_points(pair[0], poses[:2], pair[1], poses[2:])


def touching(first: Any, pose: Any, second: Any) -> ContactPoints:
    """The contact points of a shape and one that is at the origin, those that there are."""
    points = native_jit(evaluate, (first, second))(*pose, *HERE)
    return jax.tree.map(lambda each: np.asarray(each)[np.asarray(points.gap) < 0.5 * APART], points)


@pytest.mark.exhaustive
@pytest.mark.parametrize("x", [(0.07, 0.03), (0.2, 0.2)], ids=["anywhere", "corner over vertex"])
def test_a_box_touches_a_flat_mesh_in_its_corners(x: tuple[float, float]) -> None:
    for angle, tilt in ((0, 0), (20, 0), (45, 2), (20, -3)):
        R = Rotation.from_euler("zy", (angle, tilt), degrees=True).as_matrix()
        corners = np.array([*x, 0.11]) + CUBE * BOX.size @ R.T
        found = touching(BOX, (np.array([*x, 0.11]), R), grid(6, 1.2))
        lowest = corners[np.argsort(corners[:, 2])[: 4 if tilt == 0 else 2]]
        np.testing.assert_allclose(found.normal, np.broadcast_to([0, 0, -1], found.normal.shape), atol=1e-15)
        for corner in lowest:
            k = np.argmin(np.sum((found.point[:, :2] - corner[:2]) ** 2, axis=1))
            np.testing.assert_allclose(found.point[k, :2], corner[:2], atol=1e-14)
            np.testing.assert_allclose(found.gap[k], corner[2], atol=1e-14)
        assert len({*found.feature.tolist()}) == len(found.gap)


@pytest.mark.exhaustive
def test_a_box_in_the_corner_of_a_floor_and_a_wall_touches_both() -> None:
    """Four corners are on the floor, and four on the wall, two of them the same ones."""
    v = np.array([(0, -1, 0), (2, -1, 0), (2, 1, 0), (0, 1, 0), (0, -1, 2), (0, 1, 2)], float)
    mesh = ph.shapes.TriangleMesh(v, [(0, 1, 2), (0, 2, 3), (0, 3, 5), (0, 5, 4)])
    found = touching(BOX, (np.array([0.15, 0.1, 0.1]), np.eye(3)), mesh)
    assert len(found.gap) == 8
    np.testing.assert_allclose(found.gap, 0, atol=1e-15)
    np.testing.assert_allclose(np.sort(-found.normal[:, 2]), [0, 0, 0, 0, 1, 1, 1, 1], atol=1e-15)
    assert len({*found.feature.tolist()}) == 8


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["box", "cylinder", "ellipsoid", "hull"])
def test_a_cube_of_triangles_has_the_gaps_of_a_hull(name: str) -> None:
    """Over its faces, edges and corners, which normals within the cones of its triangles have to find."""
    body = {
        "box": BOX,
        "cylinder": ph.shapes.Cylinder(0.15, 0.2),
        "ellipsoid": ph.shapes.Ellipsoid((0.2, 0.15, 0.1)),
        "hull": ph.shapes.ConvexMesh(CUBE * np.array([0.3, 0.2, 0.25]) + 0.02),
    }[name]
    hull, mesh, rng, count = ph.shapes.ConvexMesh(CUBE), cube(), np.random.default_rng(4), 0
    while count < 40:
        x = rng.normal(size=3)
        x *= rng.uniform(0.6, 0.8) / np.max(np.abs(x))
        pose = x, Rotation.random(random_state=rng).as_matrix()
        exact = touching(body, pose, hull)
        if not -0.002 < np.min(exact.gap) < 0.05:
            continue
        count += 1
        found = touching(body, pose, mesh)
        k = np.argmin(found.gap)
        np.testing.assert_allclose(found.gap[k], np.min(exact.gap), rtol=0, atol=1e-8)
        np.testing.assert_allclose(found.normal[k], exact.normal[np.argmin(exact.gap)], rtol=0, atol=1e-5)


def along_axes(x: np.ndarray, R: np.ndarray, size: np.ndarray) -> tuple[float, np.ndarray]:
    """The largest distance of a box from the cube along the axes of which one separates best, and the axis."""
    axes = np.array([*np.eye(3), *R.T, *(np.cross(a, b) for a in np.eye(3) for b in R.T)])
    axes = np.concatenate((axes, -axes)) / np.linalg.norm(axes, axis=1)[np.r_[:15, :15], None]
    gaps = axes @ x - np.abs(axes @ R) @ (0.5 * size) - 0.5 * np.sum(np.abs(axes), axis=1)
    return np.max(gaps), axes[np.argmax(gaps)]


@pytest.mark.exhaustive
@pytest.mark.parametrize("size", [(1.5, 1.2, 0.5), (0.3, 0.25, 0.2)], ids=["large", "small"])
def test_a_box_leaves_a_cube_of_triangles_the_shortest_way(size: tuple[float, float, float]) -> None:
    """Where it overlaps triangles of several faces, also of those beside the edge that it has passed."""
    box, mesh, rng = ph.shapes.Box(size), cube(), np.random.default_rng(1)
    find = native_jit(evaluate, (box, mesh))
    for _ in range(60):
        direction, R = rng.normal(size=3), Rotation.random(random_state=rng).as_matrix()
        depth, near, far = rng.uniform(1e-4, 1e-2), 0.0, 3.0
        for _ in range(40):
            middle = 0.5 * (near + far)
            outside = along_axes(middle * direction / np.linalg.norm(direction), R, np.array(size))[0] > -depth
            near, far = (near, middle) if outside else (middle, far)
        x = near * direction / np.linalg.norm(direction)
        gap, axis = along_axes(x, R, np.array(size))
        found = find(x, R, *HERE)
        np.testing.assert_allclose(np.min(found.gap), gap, rtol=0, atol=1e-9)
        np.testing.assert_allclose(found.normal[np.argmin(found.gap)], -axis, rtol=0, atol=1e-5)


def slide(ground: Any, shape: Any, tilt: float = 0.0) -> Any:
    """Half a second of a body that slides and comes to rest on the ground."""
    R = Rotation.from_euler("y", -tilt).as_matrix()
    model = ph.Model(gravity=(0, 0, -9.81))
    model.ground.add_shape(ground)
    place, velocity = R @ [0.07, 0.03, 0.1], R @ [1.0, 0.3, 0]
    model.add_body(mass=2.0, shape=shape, position=place, rotation=R, velocity=velocity, name="body")
    model.contacts(friction=0.4)
    return ph.simulate(model.problem(t1=0.5, h=0.005))


@pytest.mark.exhaustive
@pytest.mark.parametrize("ground", ["mesh", "field", "slope"])
@pytest.mark.parametrize("name", ["box", "cylinder", "hull"])
def test_bodies_slide_over_triangles_as_on_a_plane(ground: str, name: str) -> None:
    shape = {
        "box": BOX,
        "cylinder": ph.shapes.Cylinder(0.15, 0.2),
        "hull": ph.shapes.ConvexMesh(CUBE * np.array([0.3, 0.25, 0.2])),
    }[name]
    tilt = 0.2 if ground == "slope" else 0.0
    rise = np.tan(tilt) * np.linspace(-1.2, 1.2, 9)[:, None] * np.ones(9)
    surface = grid(8, 2.4) if ground == "mesh" else ph.shapes.Heightfield(rise, (2.4, 2.4))
    plane = ph.shapes.Plane(rotation=Rotation.from_euler("y", -tilt).as_matrix())
    run, exact = (slide(each, shape, tilt) for each in (surface, plane))
    np.testing.assert_allclose(run.bodies["body"].position, exact.bodies["body"].position, rtol=0, atol=1e-12)
    forces = [r.contacts["ground", "body"].force for r in (run, exact)]
    # Corners of a slope of triangles have gaps that differ by 1e-12, and what stops closes these within a step.
    np.testing.assert_allclose(*forces, rtol=0, atol=2.0 * 1e-12 / 0.005**2)


@pytest.mark.parametrize("name", ["box", pytest.param("cylinder", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_bodies_larger_than_a_cube_of_triangles_rest_on_it(name: str) -> None:
    """Its walls and its other face lie far within their extent, which is no overlap of those."""
    body = ph.shapes.Box((2.0, 1.5, 0.4)) if name == "box" else ph.shapes.Cylinder(1.0, 0.4)
    mesh, rng = cube(), np.random.default_rng(4)
    for depth in (0.0, 1e-5, 1e-3, -1e-3):
        for _ in range(5):
            R = Rotation.from_euler("z", 90 * rng.integers(4), degrees=True).as_matrix()
            place = np.array([*rng.uniform(-0.5, 0.5, 2), 0.7 - depth])
            found = touching(body, (place, R), mesh)
            np.testing.assert_allclose(np.min(found.gap), -depth, rtol=0, atol=1e-12)
            down = found.normal[:, 2] < -0.999
            assert np.all(found.gap[~down] > -depth - 1e-12)
            assert np.sum(down) >= 3


def test_triangles_that_share_no_vertices_have_neighbours_and_one_that_is_turned_over_is_named() -> None:
    mesh = cube()
    loose = ph.shapes.TriangleMesh(np.reshape(mesh.corners, (-1, 3)), np.arange(3 * len(mesh.faces)).reshape(-1, 3))
    np.testing.assert_array_equal(loose.beyond, mesh.beyond)
    faces = np.array(mesh.faces)
    faces[3] = faces[3, ::-1]
    with pytest.raises(ValueError, match=r"and 3 both run .*|3 and .* both run"):
        ph.shapes.TriangleMesh(mesh.vertices, faces)
