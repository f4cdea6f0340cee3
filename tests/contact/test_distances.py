"""Distances between shapes, against coal, closed forms and each other."""

import itertools

import jax
import numpy as np
import pytest
from scipy.spatial.transform import Rotation

from polhode import shapes
from polhode.compiler.native_jit import native_jit
from polhode.contact.distances import APART, ContactPoints, contact_points, slots

RNG = np.random.default_rng(5)
POINTS = RNG.normal(size=(14, 3))
POINTS *= np.array([0.5, 0.4, 0.3]) / np.linalg.norm(POINTS, axis=1)[:, None]
SHAPES = {
    "plane": shapes.Plane(),
    "sphere": shapes.Sphere(0.4),
    "capsule": shapes.Capsule(0.2, 0.7),
    "box": shapes.Box((0.5, 0.8, 0.3)),
    "cylinder": shapes.Cylinder(0.3, 0.5),
    "ellipsoid": shapes.Ellipsoid((0.5, 0.2, 0.35)),
    "convex": shapes.ConvexMesh(POINTS),
}
CLOSED_FORMS = [
    *(("plane", name) for name in list(SHAPES)[1:]),
    *(("sphere", name) for name in list(SHAPES)[1:]),
    ("capsule", "capsule"),
    ("box", "box"),
]
SEARCHES = [pair for pair in itertools.combinations_with_replacement(list(SHAPES)[2:], 2) if pair not in CLOSED_FORMS]
ALL = [*CLOSED_FORMS, *SEARCHES]
HERE = (np.zeros(3), np.eye(3))


def evaluate(pair, *poses):
    """Contact points as a function of two shapes and the numbers of two poses."""
    return contact_points(pair[0], poses[:2], pair[1], poses[2:])


def points_of(first, pose, second, other) -> ContactPoints:
    """The contact points of two shapes by machine code."""
    return native_jit(evaluate, (first, second))(*pose, *other)


def turn(axis, degrees):
    return Rotation.from_euler(axis, degrees, degrees=True).as_matrix()


def random_pose(scale=0.5, rng=RNG):
    return scale * rng.normal(size=3), Rotation.random(random_state=rng).as_matrix()


def coal_shape(name):
    coal = pytest.importorskip("coal")
    if name == "convex":
        corners = np.asarray(SHAPES["convex"].hull.corners).reshape(-1, 3)
        points, triangles = coal.StdVec_Vec3s(), coal.StdVec_Triangle()
        for point in corners:
            points.append(point)
        for k in range(0, len(corners), 3):
            triangles.append(coal.Triangle(k, k + 1, k + 2))
        model = coal.BVHModelOBBRSS()
        model.beginModel(len(triangles), len(points))
        model.addSubModel(points, triangles)
        model.endModel()
        model.buildConvexHull(True, "Qt")
        return model.convex
    return {
        "plane": lambda: coal.Halfspace(np.array([0.0, 0, 1]), 0.0),
        "sphere": lambda: coal.Sphere(0.4),
        "capsule": lambda: coal.Capsule(0.2, 0.7),
        "box": lambda: coal.Box(0.5, 0.8, 0.3),
        "cylinder": lambda: coal.Cylinder(0.3, 0.5),
        "ellipsoid": lambda: coal.Ellipsoid(0.5, 0.2, 0.35),
    }[name]()


def coal_distance(a, pose, b, other):
    """Signed distance and the normal from the first to the second by coal."""
    import coal

    request, result = coal.DistanceRequest(), coal.DistanceResult()
    request.enable_signed_distance = True
    request.gjk_tolerance = request.epa_tolerance = 1e-12
    request.gjk_max_iterations = request.epa_max_iterations = 1000
    places = (coal.Transform3s(R, x) for x, R in (pose, other))
    distance = coal.distance(a, next(places), b, next(places), request, result)
    return distance, np.array(result.normal)


def poses_at(names, gap, count):
    """Poses at which coal finds two shapes apart by `gap`, by approach along a line, and the distance then."""
    a, b = map(coal_shape, names)
    rng = np.random.default_rng(11)
    for _ in range(count):
        pose, (x, R) = HERE if names[0] == "plane" else random_pose(0.3, rng), random_pose(0.3, rng)
        direction = np.array([0.0, 0, 1]) if names[0] == "plane" else (x - pose[0]) / np.linalg.norm(x - pose[0])
        near, far = 0.0, 4.0
        for _ in range(45):
            middle = 0.5 * (near + far)
            distance, _ = coal_distance(a, pose, b, (pose[0] + middle * direction, R))
            near, far = (near, middle) if distance > gap else (middle, far)
        other = (pose[0] + far * direction, R)
        yield pose, other, coal_distance(a, pose, b, other)[0]


@pytest.mark.sampled(6)
@pytest.mark.parametrize("gap", [0.3, 1e-3, 1e-6])
@pytest.mark.parametrize("names", CLOSED_FORMS, ids="-".join)
def test_closed_forms_have_the_gaps_of_coal(names, gap):
    for pose, other, distance in poses_at(names, gap, 6):
        found = points_of(SHAPES[names[0]], pose, SHAPES[names[1]], other)
        if names == ("box", "box"):
            # A bound where vertices are next to vertices or edges.
            assert np.min(found.gap) <= distance + 1e-9
            assert np.min(found.gap) > 0
        else:
            np.testing.assert_allclose(np.min(found.gap), distance, rtol=0, atol=1e-9)


@pytest.mark.parametrize("names", CLOSED_FORMS, ids="-".join)
def test_closed_forms_overlap_by_as_much_as_coal_says(names):
    a, b = map(coal_shape, names)
    first, second = (SHAPES[name] for name in names)
    rng, count = np.random.default_rng(3), 0
    while count < 8:
        pose, other = HERE if names[0] == "plane" else random_pose(0.3, rng), random_pose(0.3, rng)
        distance, normal = coal_distance(a, pose, b, other)
        if not -0.15 < distance < 0:
            continue
        count += 1
        found = points_of(first, pose, second, other)
        k = np.argmin(found.gap)
        # Where coal iterates, its distances are right to 1e-9 or so, and its normals to the root of that.
        iterates = names == ("box", "box") or "ellipsoid" in names
        np.testing.assert_allclose(found.gap[k], distance, rtol=0, atol=1e-9 if "ellipsoid" not in names else 1e-7)
        np.testing.assert_allclose(found.normal[k], normal, atol=1e-3 if iterates else 1e-6)


@pytest.mark.parametrize("gap", [0.3, 1e-3, -1e-4])
@pytest.mark.parametrize("names", SEARCHES, ids="-".join)
@pytest.mark.exhaustive
def test_searches_have_the_gaps_of_coal(names, gap):
    for pose, other, distance in poses_at(names, gap, 4):
        found = points_of(SHAPES[names[0]], pose, SHAPES[names[1]], other)
        np.testing.assert_allclose(np.min(found.gap), distance, rtol=0, atol=1e-8)


@pytest.mark.parametrize("names", ALL, ids="-".join)
@pytest.mark.sampled(9)
def test_moving_both_bodies_moves_the_points(names):
    first, second = (SHAPES[name] for name in names)
    for seed in range(3):
        rng = np.random.default_rng(seed)
        (x, R), (y, S), (z, Q) = (random_pose(0.3, rng) for _ in range(3))
        if names not in CLOSED_FORMS:
            # Bodies deep in each other have several ways out that are shortest nearby, of which a search returns one.
            y = x + 0.6 * (y - x) / np.linalg.norm(y - x)
        before = points_of(first, (x, R), second, (y, S))
        after = points_of(first, (z + Q @ x, Q @ R), second, (z + Q @ y, Q @ S))
        used = before.gap < 0.5 * APART
        if names in CLOSED_FORMS:
            np.testing.assert_allclose(after.gap, before.gap, atol=1e-12)
            np.testing.assert_array_equal(after.feature[used], before.feature[used])
            np.testing.assert_allclose(after.point[used], (z + before.point @ Q.T)[used], atol=1e-11)
            np.testing.assert_allclose(after.normal[used], (before.normal @ Q.T)[used], atol=1e-11)
        else:
            np.testing.assert_allclose(np.min(after.gap), np.min(before.gap), atol=1e-7)


@pytest.mark.exhaustive
@pytest.mark.parametrize("names", ALL, ids="-".join)
def test_order_of_the_pair_turns_normals_round(names):
    first, second = (SHAPES[name] for name in names)
    pose, other = random_pose(), random_pose()
    a, b = points_of(first, pose, second, other), points_of(second, other, first, pose)
    assert slots(first, second) == slots(second, first) == len(a.gap)
    if first is not second:
        np.testing.assert_array_equal(a.gap, b.gap)
        np.testing.assert_array_equal(a.normal, -b.normal)
        np.testing.assert_array_equal(a.point, b.point)
        np.testing.assert_array_equal(a.tangent, b.tangent)
        return
    k, m = np.argmin(a.gap), np.argmin(b.gap)
    np.testing.assert_allclose(a.gap[k], b.gap[m], atol=1e-12)
    np.testing.assert_allclose(a.normal[k], -b.normal[m], atol=1e-12)


@pytest.mark.parametrize("names", ALL, ids="-".join)
@pytest.mark.sampled(30)
def test_directions_are_unit_vectors_across_each_other(names):
    first, second = (SHAPES[name] for name in names)
    found = points_of(first, random_pose(), second, random_pose())
    np.testing.assert_allclose(np.linalg.norm(found.normal, axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(np.linalg.norm(found.tangent, axis=1), 1, atol=1e-12)
    np.testing.assert_allclose(np.sum(found.normal * found.tangent, axis=1), 0, atol=1e-12)
    assert len({*found.feature[found.gap < 0.5 * APART]}) == np.sum(found.gap < 0.5 * APART)
    assert found.feature.dtype == np.int32


def evaluate_rates(pair, poses, rates):
    """Contact points, and the rates of all but features."""
    return evaluate(pair, *poses), jax.jvp(lambda *poses: evaluate(pair, *poses)[:4], poses, rates)[1]


def rates_of(first, pose, second, other, twists):
    """Contact points with their rates while the bodies move with (ω, u) each, both in space."""
    places = [(u, np.cross(w, R.T).T) for (_, R), (w, u) in zip((pose, other), twists, strict=True)]
    return native_jit(evaluate_rates, (first, second))((*pose, *other), (*places[0], *places[1]))


@pytest.mark.parametrize("names", ALL, ids="-".join)
@pytest.mark.exhaustive
def test_gaps_change_as_the_points_move_along_the_normal(names):
    rng = np.random.default_rng(8)
    pose, other, _ = next(poses_at(names, 1e-7 if "plane" not in names else 1e-3, 1))
    pose = HERE if names[0] == "plane" else pose
    twists = [rng.normal(size=(2, 3)) for _ in range(2)]
    found, rates = rates_of(SHAPES[names[0]], pose, SHAPES[names[1]], other, twists)
    k = int(np.argmin(found.gap))
    velocities = [
        u + np.cross(w, np.asarray(found.point[k]) - x) for (x, _), (w, u) in zip((pose, other), twists, strict=True)
    ]
    expected = np.asarray(found.normal[k]) @ (velocities[1] - velocities[0])
    np.testing.assert_allclose(rates[0][k], expected, atol=1e-5 if names in SEARCHES else 1e-9)
    # And the gap of a position a little later.
    step, gaps = 1e-5, []
    for side in (-1, 1):
        places = [
            (x + side * step * u, Rotation.from_rotvec(side * step * w).as_matrix() @ R)
            for (x, R), (w, u) in zip((pose, other), twists, strict=True)
        ]
        gaps.append(np.min(points_of(SHAPES[names[0]], places[0], SHAPES[names[1]], places[1]).gap))
    np.testing.assert_allclose((gaps[1] - gaps[0]) / (2 * step), expected, atol=1e-3)
