"""Distances of shapes that rest on each other: coincident faces, edges and rims, transitions, coincident centres."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_distances import HERE, SHAPES, evaluate, points_of, turn

from polhode import shapes
from polhode.compiler.native_jit import native_jit
from polhode.contact.distances import APART, check_pair, contact_points, slots

CUBE = shapes.Box((1, 1, 1))
HULL = shapes.ConvexMesh([[x, y, z] for x in (-0.5, 0.5) for y in (-0.5, 0.5) for z in (-0.5, 0.5)])
EYE = np.eye(3)
ROOT = np.sqrt(2)


def corners_of(found):
    """The places of the points on the plane z = 1/2, sorted."""
    used = found.gap < 0.5 * APART
    np.testing.assert_allclose(found.gap[used], 0, atol=1e-14)
    np.testing.assert_allclose(found.normal[used], [[0, 0, 1]] * used.sum(), atol=1e-14)
    np.testing.assert_allclose(found.point[used][:, 2], 0.5, atol=1e-14)
    return np.array(sorted(np.round(found.point[used][:, :2], 12).tolist()))


SQUARE = [[-0.5, -0.5], [-0.5, 0.5], [0.5, -0.5], [0.5, 0.5]]


@pytest.mark.sampled(2)
@pytest.mark.parametrize("lower", [CUBE, HULL], ids=["box", "hull"])
@pytest.mark.parametrize(
    ("size", "place", "angle", "expected"),
    [
        ((1, 1, 1), (0, 0), 0, SQUARE),
        ((1, 1, 1), (0, 0), 90, SQUARE),
        ((2, 2, 1), (0, 0), 0, SQUARE),
        ((2, 1, 1), (0, 0), 0, SQUARE),
        ((0.5, 0.5, 1), (0, 0), 0, np.array(SQUARE) / 2),
        ((0.5, 1, 1), (0.25, 0), 0, [[0, -0.5], [0, 0.5], [0.5, -0.5], [0.5, 0.5]]),
        ((1, 1, 1), (0.5, 0.25), 0, [[0, -0.25], [0, 0.5], [0.5, -0.25], [0.5, 0.5]]),
        ((1, 1, 1), (0.7, 0.7), 0, [[0.2, 0.2], [0.2, 0.5], [0.5, 0.2], [0.5, 0.5]]),
        ((ROOT / 2, ROOT / 2, 1), (0, 0), 45, [[-0.5, 0], [0, -0.5], [0, 0.5], [0.5, 0]]),
        ((ROOT, ROOT, 1), (0, 0), 45, SQUARE),
    ],
)
def test_boxes_on_each_other_touch_in_the_corners_of_the_overlap(lower, size, place, angle, expected):
    upper, pose = shapes.Box(size), (np.array([*place, 1.0]), turn("z", angle))
    np.testing.assert_allclose(corners_of(points_of(lower, HERE, upper, pose)), expected, atol=1e-11)


def test_turned_boxes_touch_in_four_corners_of_an_octagon():
    corners = corners_of(points_of(CUBE, HERE, CUBE, (np.array([0, 0, 1.0]), turn("z", 45))))
    edge = ROOT / 2 - 0.5
    octagon = {(s * a, r * b) for a, b in ((0.5, edge), (edge, 0.5)) for s in (-1, 1) for r in (-1, 1)}
    assert {tuple(np.round(c, 9)) for c in corners} <= {tuple(np.round(c, 9)) for c in octagon}
    # Two pairs of opposite ones, at right angles.
    assert len(corners) == 4
    np.testing.assert_allclose(np.sum(corners, axis=0), 0, atol=1e-12)


@pytest.mark.parametrize("angle", [0, 45, 30])
@pytest.mark.parametrize("size", [1.0, 1.5])
def test_rounding_does_not_change_which_points_are_taken(angle, size):
    rng, upper, known = np.random.default_rng(1), shapes.Box((size, size, 1)), None
    for _ in range(20):
        pose = (np.array([0, 0, 1.0]) + 1e-15 * rng.normal(size=3), turn("z", angle) + 1e-15 * rng.normal(size=(3, 3)))
        found = points_of(CUBE, HERE, upper, pose)
        new = dict(zip(found.feature.tolist(), found.point, strict=True))
        known = known or new
        assert new.keys() == known.keys()
        for feature, point in new.items():
            np.testing.assert_allclose(point, known[feature], atol=1e-12)
        np.testing.assert_allclose(found.tangent, [found.tangent[0]] * 4, atol=1e-12)


def test_a_box_on_an_edge_touches_in_both_of_its_ends():
    pose = (np.array([0, 0, 0.5 + ROOT / 2]), turn("x", 45))
    found = points_of(shapes.Box((2, 2, 1)), HERE, CUBE, pose)
    np.testing.assert_allclose(
        corners_of(found._replace(gap=np.where(found.gap < 0.1, found.gap, APART))), [[-0.5, 0], [0.5, 0]], atol=1e-12
    )


def test_crossing_edges_touch_in_one_point():
    lower, upper = (np.zeros(3), turn("y", 45)), (np.array([0.1, 0.05, ROOT]), turn("x", 45))
    found = points_of(CUBE, lower, CUBE, upper)
    assert (found.gap < 0.5 * APART).tolist() == [True, False, False, False]
    np.testing.assert_allclose(found.gap[0], 0, atol=1e-14)
    np.testing.assert_allclose(found.point[0], (0, 0.05, ROOT / 2), atol=1e-14)
    np.testing.assert_allclose(found.normal[0], (0, 0, 1), atol=1e-14)


@pytest.mark.parametrize("angle", [0.0, 17.0, 90.0])
def test_a_standing_cylinder_keeps_its_points_while_it_spins(angle):
    pose = (np.array([0.2, 0.1, 0.25]), turn("z", angle))
    found = points_of(shapes.Plane(), HERE, SHAPES["cylinder"], pose)
    np.testing.assert_allclose(found.gap, 0, atol=1e-15)
    np.testing.assert_allclose(found.point, [[0.5, 0.1, 0], [0.2, 0.4, 0], [-0.1, 0.1, 0], [0.2, -0.2, 0]], atol=1e-14)
    assert found.feature.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("shape", [SHAPES["cylinder"], shapes.Disc(0.3)], ids=["cylinder", "disc"])
def test_tilted_rims_have_their_lowest_point_at_every_angle(shape):
    half = getattr(shape, "half", 0.0)
    for tilt in (1e-9, 1e-6, 1e-3, 0.3, 1.0, 1.5, np.pi / 2 - 1e-6, np.pi / 2, 2.0):
        for azimuth in np.linspace(0, 6, 7):
            R = turn("z", np.degrees(azimuth)) @ turn("x", np.degrees(tilt))
            found = points_of(shapes.Plane(), HERE, shape, (np.array([0, 0, 1.0]), R))
            lowest = 1 - 0.3 * abs(np.sin(tilt)) - half * abs(np.cos(tilt))
            np.testing.assert_allclose(np.min(found.gap), lowest, atol=1e-14)
            # The others hold it once it lies flat: around the middle of the cap, on its rim.
            if tilt < 1e-2:
                np.testing.assert_allclose(np.linalg.norm(found.point[:, :2], axis=1), 0.3, atol=1e-2)
                assert len({tuple(np.sign(np.round(p, 3))) for p in np.diff(found.point[:, :2], axis=0)}) >= 3


@pytest.mark.parametrize("shape", [SHAPES["cylinder"], shapes.Disc(0.3)], ids=["cylinder", "disc"])
def test_rims_that_are_next_to_flat_have_points_that_stay(shape):
    """Round-off in rotations moves none along the axis, nor around it."""
    half = getattr(shape, "half", 0.0)
    for tilt in (0.0, 1e-8, 3e-8, 1e-7, 2e-7, 1e-6, 1e-5):
        sets = []
        for azimuth in (20.0, 20.0 + 1e-6, 200.0):
            R = turn("z", azimuth) @ turn("x", np.degrees(tilt)) @ turn("z", 50 - azimuth) * (1 + 3e-15)
            found = points_of(shapes.Plane(), HERE, shape, (np.array([0, 0, 0.0]), R))
            on_rim = found.point + 0.5 * found.gap[:, None] * [0, 0, 1]
            np.testing.assert_allclose(on_rim @ R[:, 2], -half, rtol=0, atol=1e-14)
            sets.append(on_rim)
        # The lowest point of a flat rim is anywhere; it moves on continuously from there.
        np.testing.assert_allclose(sets[1], sets[0], rtol=0, atol=1e-7)
        if tilt <= 1e-7:
            np.testing.assert_allclose(sets[2], sets[0], rtol=0, atol=1e-6)
            assert found.feature.tolist() == [0, 1, 2, 3]


def test_a_lying_cylinder_touches_in_two_points():
    found = points_of(shapes.Plane(), HERE, SHAPES["cylinder"], (np.array([0, 0, 0.3]), turn("x", 90)))
    touching = found.gap < 1e-12
    np.testing.assert_allclose(sorted(found.point[touching][:, 1]), [-0.25, 0.25], atol=1e-14)
    assert sorted(found.feature[touching]) == [4, 5]


def test_parallel_capsules_touch_at_both_ends_of_what_faces_each_other():
    first, second = shapes.Capsule(0.1, 1.0), shapes.Capsule(0.2, 0.6)
    for R in (EYE, turn("x", 180)):
        found = points_of(first, HERE, second, (np.array([0.3, 0, 0.4]), R))
        np.testing.assert_allclose(found.gap, 0, atol=1e-15)
        np.testing.assert_allclose(sorted(found.point[:, 2]), [0.1, 0.5], atol=1e-15)
    beyond = points_of(first, HERE, second, (np.array([0, 0, 1.3]), EYE))
    np.testing.assert_allclose(beyond.gap, [0.2, APART])


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("first", "second", "place", "R", "expected"),
    [
        (SHAPES["cylinder"], SHAPES["cylinder"], (0.6, 0, 0.1), EYE, [[0.3, 0, -0.15], [0.3, 0, 0.25]]),
        (CUBE, SHAPES["cylinder"], (0, 0, 0.8), turn("x", 90), [[0, -0.25, 0.5], [0, 0.25, 0.5]]),
        (CUBE, SHAPES["capsule"], (0, 0, 0.7), turn("x", 90), [[0, -0.35, 0.5], [0, 0.35, 0.5]]),
        (CUBE, SHAPES["capsule"], (0.1, 0, 1.05), EYE, [[0.1, 0, 0.5]]),
        (CUBE, SHAPES["ellipsoid"], (0.1, 0.2, 0.85), EYE, [[0.1, 0.2, 0.5]]),
    ],
    ids=["cylinders side by side", "cylinder lies", "capsule lies", "capsule stands", "ellipsoid"],
)
def test_round_shapes_touch_along_lines_and_in_points(first, second, place, R, expected):
    found = points_of(first, HERE, second, (np.array(place), R))
    used = found.gap < 1e-9
    np.testing.assert_allclose(found.gap[used], 0, atol=1e-10)
    np.testing.assert_allclose(sorted(found.point[used].tolist()), expected, atol=1e-9)


def test_a_standing_cylinder_on_a_box_touches_on_its_rim():
    found = points_of(CUBE, HERE, SHAPES["cylinder"], (np.array([0, 0, 0.75]), turn("z", 20)))
    np.testing.assert_allclose(found.gap, 0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(found.point[:, :2], axis=1), 0.3, atol=1e-14)
    np.testing.assert_allclose(np.sum(found.point[:, :2], axis=0), 0, atol=1e-12)


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", ["sphere", "capsule", "box", "cylinder", "ellipsoid", "convex"])
def test_coincident_centres_have_finite_gaps_and_derivatives(name):
    pair = (SHAPES["sphere"], SHAPES[name])
    assert np.all(np.isfinite(gradient_of(pair)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("pair", [(CUBE, CUBE), (SHAPES["capsule"], SHAPES["capsule"])], ids=["boxes", "capsules"])
def test_coincident_shapes_have_finite_gaps_and_derivatives(pair):
    assert np.all(np.isfinite(gradient_of(pair)))


def gap_gradient(pair, *poses):
    """The derivative of the first gap by all numbers of the poses."""
    return jnp.concatenate([g.ravel() for g in jax.grad(lambda p: evaluate(pair, *p).gap[0])(poses)])


def gradient_of(pair):
    """The derivative where both shapes are at the same place."""
    return native_jit(gap_gradient, pair)(*HERE, *HERE)


@pytest.mark.exhaustive
def test_sizes_have_derivatives():
    gap = lambda r: contact_points(shapes.Sphere(r), HERE, CUBE, (jnp.array([0, 0, 2.0]), jnp.eye(3))).gap[0]  # noqa: E731
    assert float(jax.grad(gap)(0.5)) == -1


@pytest.mark.exhaustive
def test_pairs_batch():
    poses = np.random.default_rng(0).normal(size=(5, 3))
    batch = native_jit(gaps_of_batch, (CUBE, CUBE))(poses)
    for x, gaps in zip(poses, batch, strict=True):
        np.testing.assert_allclose(points_of(CUBE, HERE, CUBE, (x, EYE)).gap, gaps, atol=1e-14)


def gaps_of_batch(pair, places):
    """Gaps for several places of the second body."""
    return jax.vmap(lambda x: evaluate(pair, *HERE, x, EYE).gap)(places)


@pytest.mark.exhaustive
def test_large_hulls_have_the_gaps_of_small_ones():
    around = np.linspace(0, 2 * np.pi, 60, endpoint=False)
    rim = 0.3 * np.stack((np.cos(around), np.sin(around)), axis=1)
    prism = shapes.ConvexMesh([[*p, z] for p in rim for z in (-0.25, 0.25)])
    x = np.array([0.1, 0.2, 0.25])
    found = points_of(shapes.Plane(), HERE, prism, (x, EYE))
    np.testing.assert_allclose(found.gap, 0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm((found.point - x)[:, :2], axis=1), 0.3, atol=1e-14)
    assert np.all(np.abs(np.sum((found.point - x)[:, :2], axis=0)) < 0.15)
    for angle in (1.0, 50.0, 90.0):
        R = turn("x", angle)
        found = points_of(shapes.Plane(), HERE, prism, (x, R))
        lowest = np.min(x[2] + np.asarray(prism.vertices) @ R[2])
        np.testing.assert_allclose(np.min(found.gap), lowest, atol=1e-14)
    for name, far in (("sphere", 0.4), ("box", 0.15)):
        found = points_of(prism, HERE, SHAPES[name], (np.array([0, 0, 0.25 + far]), EYE))
        np.testing.assert_allclose(np.min(found.gap), 0, atol=1e-12)
        np.testing.assert_allclose(found.normal[0], (0, 0, 1), atol=1e-12)


FLAT = shapes.Heightfield(np.zeros((6, 6)), (5.0, 5.0))
RIDGE = shapes.Heightfield(-0.5 * np.abs(np.linspace(-2.5, 2.5, 6))[:, None] * np.ones(6), (5.0, 5.0))
VALLEY = shapes.Heightfield(0.5 * np.abs(np.linspace(-3, 3, 7))[:, None] * np.ones(6), (6.0, 5.0))


@pytest.mark.parametrize(
    "place", [(0.3, 0.2), (0.5, 0.5), (0.7, 0.7), (0.2, 1.5)], ids=["cell", "vertex", "diagonal", "edge"]
)
def test_a_flat_field_is_a_plane_without_edges(place):
    found = points_of(SHAPES["sphere"], (np.array([*place, 0.35]), EYE), FLAT, HERE)
    assert np.sum(found.gap < 0.5 * APART) == 1
    np.testing.assert_allclose(found.gap[0], -0.05, atol=1e-15)
    np.testing.assert_allclose(found.normal[0], (0, 0, -1), atol=1e-15)
    np.testing.assert_allclose(found.point[0], (*place, -0.025), atol=1e-15)


def test_a_sphere_in_a_valley_touches_both_sides():
    found = points_of(SHAPES["sphere"], (np.array([0, 0.3, 0.4 * np.sqrt(1.25)]), EYE), VALLEY, HERE)
    np.testing.assert_allclose(found.gap[:2], 0, atol=1e-14)
    assert np.all(found.gap[2:] == APART)
    np.testing.assert_allclose(sorted(found.normal[:2, 0]), [-np.sqrt(0.2), np.sqrt(0.2)], atol=1e-12)


def test_a_capsule_lies_on_two_points_of_a_flat_field():
    found = points_of(SHAPES["capsule"], (np.array([0.2, 0.3, 0.2]), turn("x", 90)), FLAT, HERE)
    assert np.sum(found.gap < 0.5 * APART) == 2
    np.testing.assert_allclose(sorted(found.point[:2, 1]), [-0.05, 0.65], atol=1e-14)
    assert len({*found.feature[:2]}) == 2


def test_a_capsule_across_an_edge_touches_it_between_its_ends():
    mesh = shapes.TriangleMesh([[0, -2, 0], [0, 2, 0], [-2, 0, -1], [2, 0, -1]], [[0, 1, 2], [1, 0, 3]])
    found = points_of(SHAPES["capsule"], (np.array([0.1, 0.2, 0.2]), turn("y", 90)), mesh, HERE)
    np.testing.assert_allclose(found.gap[0], 0, atol=1e-14)
    np.testing.assert_allclose(found.point[0], (0, 0.2, 0), atol=1e-14)


def test_a_box_of_triangles_has_the_gaps_of_a_box():
    corners = np.asarray(HULL.hull.corners)
    mesh = shapes.TriangleMesh(corners.reshape(-1, 3), np.arange(36).reshape(12, 3))
    merged = merge(corners)
    rng = np.random.default_rng(2)
    for _ in range(20):
        x = rng.normal(size=3)
        x *= max(1.0, 0.6 / np.max(np.abs(x)))
        box = points_of(SHAPES["sphere"], (x, EYE), CUBE, HERE)
        for each in (mesh, merged):
            found = points_of(SHAPES["sphere"], (x, EYE), each, HERE)
            np.testing.assert_allclose(np.min(found.gap), box.gap[0], atol=1e-14)


def merge(corners):
    """The mesh of triangles that share their vertices."""
    vertices, faces = np.unique(corners.reshape(-1, 3), axis=0, return_inverse=True)
    return shapes.TriangleMesh(vertices, faces.reshape(-1, 3))


@pytest.mark.parametrize(
    ("first", "second", "message"),
    [
        (shapes.Plane(), FLAT, "Heightfield and Plane.*leave this pair out"),
        (merge(np.asarray(HULL.hull.corners)), FLAT, "Heightfield and TriangleMesh.*ConvexMesh"),
        (*[merge(np.asarray(HULL.hull.corners))] * 2, "TriangleMesh and TriangleMesh.*ConvexMesh"),
        (shapes.Disc(1), shapes.Disc(1), "Disc and Disc.*Cylinder"),
        (shapes.Sphere(3.0), FLAT, "reaches 3.5 cells.*Use `reach=4`"),
        # From half a cell beside the next grid point its end would be outside.
        (shapes.Capsule(0.1, 3.4), FLAT, "reaches 2.3 cells.*Use `reach=3`"),
    ],
)
def test_pairs_without_a_distance_are_named_with_a_remedy(first, second, message):
    with pytest.raises(ValueError, match=message):
        check_pair(first, second)
    if "reach" not in message:
        with pytest.raises(ValueError, match=message):
            slots(second, first)


def test_hulls_of_many_vertices_keep_those_that_carry_them() -> None:
    """A sole of many vertices on two of them: others, a millimetre above, may not take the place of either."""
    around = np.linspace(0, 2 * np.pi, 24, endpoint=False)
    sole = np.stack((0.1 * np.cos(around), 0.06 * np.sin(around), 1e-3 + 0 * around), axis=1)
    # These two carry it; they are not the outermost ones along most directions.
    sole[[3, 14], 2] = 0.0
    top = np.stack((0.05 * np.cos(around[::2]), 0.04 * np.sin(around[::2]), 0.1 + 0 * around[::2]), axis=1)
    foot, plane = shapes.ConvexMesh(np.concatenate((sole, top))), shapes.Plane()
    origin, eye = jnp.zeros(3), jnp.eye(3)
    points = native_jit(lambda turned: contact_points(plane, (origin, eye), foot, (origin, turned)))
    for tilt in (0.0, 1e-6, -1e-6):
        turned = np.array([[1, 0, tilt], [0, 1, -tilt], [-tilt, tilt, 1]])
        near = points(turned)
        assert np.count_nonzero(np.abs(near.gap) < 1e-6) == 2, "a vertex that carries the foot is left out"
        assert np.count_nonzero(near.gap < 2e-3) == 4
