"""Shapes: what they refuse, their mass, their bounds and their farthest points."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
import trimesh

import polhode as ph
from polhode import shapes
from polhode.contact.distances import contact_points

CUBE = np.array([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
CONVEX = {
    "sphere": shapes.Sphere(0.4),
    "capsule": shapes.Capsule(0.2, 0.7),
    "box": shapes.Box((0.5, 0.8, 0.3)),
    "cylinder": shapes.Cylinder(0.3, 0.5),
    "ellipsoid": shapes.Ellipsoid((0.5, 0.2, 0.35)),
    "convex mesh": shapes.ConvexMesh(CUBE * [0.5, 0.8, 0.3]),
}


def sections(shape):
    """Nodes and weights along z, and the two semi-axes of the sections there: exact for polynomials."""
    x, w = np.polynomial.legendre.leggauss(8)
    if isinstance(shape, shapes.Ellipsoid):
        a, b, c = np.asarray(shape.semi_axes)
        root = np.sqrt(1 - x**2)
        return c * x, c * w, a * root, b * root
    r, half = float(shape.radius), float(getattr(shape, "half", 0.0))
    z, weight, rho = half * x, half * w, np.full(8, r)
    if isinstance(shape, shapes.Cylinder):
        return z, weight, rho, rho
    for side in (-1, 1):
        u = 0.5 * r * (x + 1)
        z = np.append(z, side * (half + u))
        weight, rho = np.append(weight, 0.5 * r * w), np.append(rho, np.sqrt(r**2 - u**2))
    return z, weight, rho, rho


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["sphere", "capsule", "cylinder", "ellipsoid"])
def test_mass_is_that_of_sections(name):
    z, w, a, b = sections(CONVEX[name])
    area = np.pi * a * b
    moments = [w @ (area * a**2 / 4), w @ (area * b**2 / 4), w @ (area * z**2)]
    mass, centre, inertia = CONVEX[name].mass_properties(2.0)
    np.testing.assert_allclose(mass, 2 * w @ area, rtol=1e-13)
    np.testing.assert_allclose(centre, 0)
    np.testing.assert_allclose(inertia, 2 * np.diag(sum(moments) - np.array(moments)), rtol=1e-13, atol=1e-16)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", ["box", "convex mesh"])
def test_mass_of_a_place_and_rotation(name):
    R = np.asarray(ph.rotation_vector((0.3, -0.5, 0.8)))
    shape = CONVEX[name]
    size = {"size": shape.size} if name == "box" else {"vertices": shape.vertices}
    turned = type(shape)(**size, position=(1, 2, 3), rotation=R)
    mesh = trimesh.creation.box((0.5, 0.8, 0.3), transform=np.c_[np.r_[R, np.zeros((1, 3))], [1, 2, 3, 1]])
    mass, centre, inertia = turned.mass_properties(1.0)
    np.testing.assert_allclose(mass, mesh.volume, rtol=1e-12)
    np.testing.assert_allclose(centre, mesh.center_mass, rtol=1e-12)
    np.testing.assert_allclose(inertia, mesh.moment_inertia, rtol=1e-10, atol=1e-12)


@pytest.mark.exhaustive
def test_mass_of_triangles_is_that_of_trimesh():
    mesh = trimesh.creation.torus(1.0, 0.3, 12, 8)
    mass, centre, inertia = shapes.TriangleMesh(mesh.vertices, mesh.faces).mass_properties(1.0)
    np.testing.assert_allclose(mass, mesh.volume, rtol=1e-12)
    np.testing.assert_allclose(centre, mesh.center_mass, atol=1e-12)
    np.testing.assert_allclose(inertia, mesh.moment_inertia, rtol=1e-10, atol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", CONVEX)
def test_farthest_points_lie_on_the_shape_within_its_bounds(name):
    shape = CONVEX[name]
    directions = np.random.default_rng(2).normal(size=(50, 3))
    directions /= np.linalg.norm(directions, axis=1)[:, None]
    points = np.asarray(jax.vmap(shape.support)(jnp.asarray(directions)))
    # No point of the shape is farther along a direction than the one for it.
    heights = directions @ points.T
    assert np.all(heights.max(axis=1) <= np.diag(heights) + 1e-14)
    assert np.max(np.linalg.norm(points, axis=1)) <= float(shape.bounding_radius) * (1 + 1e-14)
    assert np.min(np.diag(heights)) >= float(shape.inner_radius) - 1e-14


def test_a_plane_has_its_normal_as_z():
    plane = shapes.Plane((1, 2, 3), (0, 3, -4), position=(0.5, 0, 0), rotation=ph.rotation_vector((0, 0, np.pi / 2)))
    x, R = plane.pose_in((jnp.array([0.0, 0, 1]), jnp.eye(3)))
    np.testing.assert_allclose(R[:, 2], (-0.6, 0, -0.8), atol=1e-15)
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(x, (-1.5, 1, 4), atol=1e-15)


def test_parameters_stay_until_they_are_numbers():
    radius = ph.Parameter("radius", 0.5)
    sphere = shapes.Sphere(radius, position=(0, radius, 0))
    assert sphere.radius is radius
    assert float(sphere.as_arrays().radius) == 0.5
    np.testing.assert_array_equal(sphere.as_arrays().position, (0, 0.5, 0))
    with pytest.raises(ValueError, match="greater than zero"):
        shapes.Sphere(ph.Parameter("radius", -0.5))


def test_sizes_have_derivatives():
    rate = jax.grad(lambda r: shapes.Sphere(r).mass_properties(1.0).mass)(0.5)
    np.testing.assert_allclose(rate, 4 * np.pi * 0.25)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: shapes.Sphere(0), "`radius` must be greater than zero"),
        (lambda: shapes.Box((1, 2)), r"`size` must be an array of shape \(3,\)"),
        (lambda: shapes.Box((1, 2, np.nan)), "`size` must be finite"),
        (lambda: shapes.Capsule(1, -1), "`length` must be greater than zero"),
        (lambda: shapes.Plane(normal=(0, 0, 0)), "`normal` must not be zero"),
        (lambda: shapes.Sphere(1, rotation=np.diag((1, 1, -1))), "not a rotation matrix"),
        (lambda: shapes.Sphere(1, name=""), "`name` must be a word"),
        (lambda: shapes.ConvexMesh(CUBE * [1, 1, 0]), "must span a volume"),
        (lambda: shapes.ConvexMesh(CUBE[:3]), "at least 4"),
        (lambda: shapes.TriangleMesh(CUBE, [[0, 1, 8]]), "there are 8 vertices"),
        (lambda: shapes.TriangleMesh(CUBE, [[0, 1, 1]]), "triangles without area"),
        (lambda: shapes.TriangleMesh(CUBE, [[0, 1, 2]]).mass_properties(1.0), "not closed"),
        (lambda: shapes.Heightfield([1, 2, 3], (1, 1)), "at least 2 × 2"),
        (lambda: shapes.Disc(1.0).mass_properties(1.0), "has no volume"),
        (lambda: shapes.Plane().mass_properties(1.0), "has no volume"),
        (lambda: CONVEX["box"].mass_properties(0.0), "`density` must be greater than zero"),
    ],
)
def test_what_makes_no_sense_is_refused(make, message):
    with pytest.raises(ValueError, match=message):
        make()


def test_other_names_are_suggested():
    with pytest.raises(AttributeError, match="Box"):
        _ = getattr(shapes, "Cube")  # noqa: B009


def test_hulls_leave_out_what_is_inside():
    hull = shapes.ConvexMesh([*CUBE, (0, 0, 0)])
    assert hull.vertices.shape == (8, 3)
    assert hull.hull.normals.shape == (6, 3)
    assert hull.hull.polygons.shape == (6, 4, 3)
    assert "8×3 numbers" in repr(hull)


@pytest.mark.parametrize("size", [1e-9, 1e-6, 1e6])
def test_hulls_of_any_size_have_triangles_for_faces(size):
    points = np.random.default_rng(0).normal(size=(60, 3))
    hull = shapes.ConvexMesh(size * points / np.linalg.norm(points, axis=1)[:, None]).hull
    assert hull.normals.shape == (116, 3)
    assert hull.polygons.shape == (116, 3, 3)


@pytest.mark.exhaustive
def test_hulls_of_one_model_have_arrays_of_one_size():
    generator = np.random.default_rng(2)
    few, many = (ph.shapes.ConvexMesh(generator.normal(size=(n, 3)), name=f"hull-{n}") for n in (8, 30))
    assert len(few.vertices) != len(many.vertices)
    padded = ph.shapes.ConvexMesh.equalise((few, many))
    sizes = [[np.shape(x) for x in jax.tree.leaves(each)] for each in padded]
    assert sizes[0] == sizes[1]
    # The same bodies.
    plane, frame = ph.shapes.Plane(), (np.zeros(3), np.eye(3))
    pose = np.array([3.0, 0.5, 4.2]), np.asarray(ph.rotation_vector((0.3, 0.2, 0.9)))
    for before, after in zip((few, many), padded, strict=True):
        np.testing.assert_allclose(before.bounds(pose), after.bounds(pose))
        gaps = [np.min(contact_points(plane, frame, each, pose).gap) for each in (before, after)]
        np.testing.assert_allclose(gaps, before.bounds(pose)[0][2], rtol=1e-12)
    model = ph.Model()
    for k, hull in enumerate((few, many)):
        model.add_body(mass=1, inertia=(1, 1, 1), position=(9 * k, 0, 0), shape=hull)
    model.ground.add_shape(ph.shapes.Plane(position=(0, 0, -9)))
    model.contacts()
    # Hulls on the plane, and hulls on hulls.
    assert len(model.assemble("SO3xR3")[0].contact_set.groups) == 2
