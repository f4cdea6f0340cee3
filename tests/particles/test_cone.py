"""The cone as a wall, beside points of its surface, planes and closed forms."""

import numpy as np
import pytest

import polhode as ph
from polhode import particles as pt

R, M, G, K = 0.01, 0.01, 9.81, 1e4
J = 0.4 * M * R * R
HOLE, ANGLE = 0.02, 0.6


def columns(x):
    return tuple(np.asarray(x, float).T)


@pytest.mark.parametrize("angle", [ANGLE, np.pi / 2])
def test_distance_and_normal_are_those_of_the_nearest_point(angle):
    """From both sides, around the rim, and beside the axis; the axis points anywhere."""
    point, axis = np.array([0.01, -0.02, 0.03]), np.array([1.0, -2.0, 0.5])
    up = axis / np.linalg.norm(axis)
    e1 = np.cross(up, [0.0, 0.0, 1.0]) / np.linalg.norm(np.cross(up, [0.0, 0.0, 1.0]))
    x = point + np.random.default_rng(0).uniform(-0.05, 0.05, (20, 3))
    cone = pt.Cone(HOLE, angle, point, axis)
    ((distance, normal),) = cone.faces(columns(x))
    feet = x - np.asarray(distance)[:, None] * np.stack(normal, axis=1) - point
    height = feet @ up
    beyond = np.linalg.norm(feet - height[:, None] * up, axis=1) - HOLE
    np.testing.assert_allclose(beyond * np.cos(angle), height * np.sin(angle), atol=1e-16)
    assert np.all(beyond > -1e-16)
    assert np.any(beyond < 1e-16)
    np.testing.assert_allclose(np.linalg.norm(np.stack(normal), axis=0), 1, rtol=1e-12)
    # No other point of the sheet is closer.
    turn, along = np.meshgrid(np.linspace(0, 2 * np.pi, 181), np.linspace(0, 0.2, 101))
    r, z = HOLE + along * np.sin(angle), along * np.cos(angle)
    surface = point + z[..., None] * up + (r * np.cos(turn))[..., None] * e1
    surface += (r * np.sin(turn))[..., None] * np.cross(up, e1)
    nearest = np.array([np.min(np.linalg.norm(surface - one, axis=-1)) for one in x])
    assert np.all(distance <= nearest)
    assert np.max(nearest - distance) < 2e-3


def test_spheres_that_cross_the_sheet_have_passed_and_those_in_the_hole_have_not():
    cone = pt.Cone(HOLE, ANGLE)
    sheet = lambda s: np.array([HOLE + s * np.sin(ANGLE), 0.0, s * np.cos(ANGLE)])  # noqa: E731
    across = np.array([np.cos(ANGLE), 0.0, -np.sin(ANGLE)])
    middle = np.array([sheet(0.03), [0.5 * HOLE, 0.0, 0.0], sheet(0.03) - R * across, sheet(0.01)])
    step = 1e-3 * np.array([across, [0.0, 0.0, -1.0], across, -across])
    x0, x = columns(middle - step), columns(middle + step)
    distances = [face for face, _ in cone.faces(x)]
    assert cone.passages(x0, x, distances, np.full(4, R)).tolist() == [True, False, False, True]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((-0.1, 0.5), "`hole` must not be negative"),
        ((0.1, 0.0), "`half_angle` must be greater than zero"),
        ((0.1, 2.0), "Turn `axis` round"),
        ((0.1, 0.5, (0, 0, 0), (0, 0, 0)), "must not be zero"),
    ],
)
def test_cones_that_are_none_are_named(arguments, message):
    with pytest.raises(ValueError, match=message):
        pt.Cone(*arguments)


def test_a_cone_needs_a_law_with_friction():
    with pytest.raises(ValueError, match="A `Cone` needs a `ContactLaw`"):
        pt.Particles(M, J, 2 * R, [[0, 0, 1.0]], contact=1.0, walls=(pt.Cone(HOLE, ANGLE),))


@pytest.mark.exhaustive
def test_balls_move_on_both_sides_of_a_cone_as_on_planes_and_fall_through_its_hole():
    """One rolls down inside, another is thrown against the sheet from outside; both in a plane through the axis."""
    law = pt.ContactLaw(pt.Hooke(K, 0.3), pt.TangentialSpring(K, 0.5))
    inward = np.array([-np.cos(ANGLE), 0.0, np.sin(ANGLE)])
    sheet = np.array([HOLE + 0.1 * np.sin(ANGLE), 0.0, 0.1 * np.cos(ANGLE)])

    def run(wall, x, v, t1):
        system = pt.Particles(M, J, 2 * R, x, contact=law, walls=(wall,), gravity=(0, 0, -G))
        return ph.simulate(system, "rodrigues", state0=system.start(x, v), t1=t1, h=2e-5, save_every=500)

    cone = pt.Cone(HOLE, ANGLE)
    for side, v in ((1, (0.0, 0.0, 0.0)), (-1, (-0.5, 0.0, 1.5))):
        x = (sheet + 1.1 * R * side * inward)[None]
        one, other = (run(wall, x, v, 0.1) for wall in (cone, pt.Plane((HOLE, 0, 0), side * inward)))
        assert float(one.outputs["dissipation"]["damping"][-1]) > 1e-5
        np.testing.assert_allclose(one.state.x, other.state.x, atol=1e-12)
        np.testing.assert_allclose(one.state.omega, other.state.omega, atol=1e-9)
        assert np.ptp(one.invariants["energy_balance"]) < 1e-13
    through = run(cone, (sheet + 1.1 * R * inward)[None], 0.0, 0.4)
    assert np.asarray(through.state.x)[-1, 0, 2] < -2 * R
