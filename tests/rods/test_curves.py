"""The curve of a hanging cable, against its equation and against equilibria of rods."""

import numpy as np
import pytest

import polhode as ph
from polhode.rods import catenary


@pytest.mark.parametrize(("last", "length"), [((8, 0, 0), 10.0), ((3, 4, 2), 6.0), ((1, 0, -5), 30.0)])
def test_nodes_lie_on_a_catenary_at_equal_arc_lengths(last, length):
    points = catenary((0, 0, 0), last, length=length, edges=4000)
    np.testing.assert_array_equal(points[[0, -1]], [(0, 0, 0), last])
    edges = np.diff(points, axis=0)
    chords = np.linalg.norm(edges, axis=1)
    # Chords are shorter than arcs by a part of h²/24 times the curvature squared.
    assert 0 < 1 - chords.sum() / length < 2e-5
    across, rise = np.hypot(edges[:, 0], edges[:, 1]), edges[:, 2]
    assert np.ptp(np.arctan2(edges[:, 1], edges[:, 0])) < 1e-9
    # The horizontal tension is the same everywhere, so the slope grows evenly with the arc length.
    np.testing.assert_allclose(np.diff(rise / across, 2), 0, atol=1e-4 * np.abs(np.diff(rise / across)).max())


def test_directions_of_gravity_and_cables_without_slack():
    upwards = catenary((0, 0, 0), (8, 0, 0), length=10.0, edges=8, down=(0, 2.0, 0))
    np.testing.assert_allclose(upwards[:, 1], -catenary((0, 0, 0), (8, 0, 0), length=10.0, edges=8)[:, 2], atol=1e-14)
    taut = catenary((0, 0, 0), (3, 0, 4), length=5.0, edges=5)
    np.testing.assert_allclose(taut, np.linspace(0, 1, 6)[:, None] * (3, 0, 4), atol=1e-7)
    # For little slack the sag is √(3 w (L - w)/8).
    sag = -catenary((0, 0, 0), (1, 0, 0), length=1 + 1e-10, edges=2)[1, 2]
    assert sag == pytest.approx(np.sqrt(3e-10 / 8), rel=1e-5)


@pytest.mark.exhaustive
@pytest.mark.parametrize("stiffness", [pytest.param(1e4, marks=pytest.mark.exhaustive), 1e8])
def test_statics_converge_from_there_however_stiff_the_edges_are(stiffness):
    length, edges, weight = 10.0, 16, 0.5
    ends = (-4.0, 0, 0), (4.0, 0, 1.0)
    points = catenary(*ends, length=length, edges=edges)
    model = ph.Model(gravity=(0, 0, -9.81))
    section = ph.rods.Section((0.1, 0.1, 50.0, *[stiffness] * 3), mass=weight, inertia=(1e-3, 1e-3, 1e-3))
    cable = model.add_rod(points=points, lengths=length / edges, normal=(0, 1, 0), section=section)
    for node, point in zip((cable.first, cable.last), ends, strict=True):
        model.add(ph.joints.Universal(model.ground, node, point, (1, 0, 0), (0, 1, 0)))
    problem = model.problem("S3|xR3", t1=1.0)
    rest = ph.equilibrium(problem)
    assert rest.stable
    assert rest.iterations.shape == (1,)
    assert rest.iterations[0] <= 12
    # Bending and edges of finite length leave the cable near the curve.
    hanging = np.asarray(cable.points(problem.system)(0.0, rest.state))
    assert np.abs(hanging - points).max() < 2e-2


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"length": 7.0}, "at least the distance of the ends, 8"),
        ({"last": (0, 0, -5)}, "above one another"),
        ({"edges": 0}, "edges"),
        ({"down": (0, 0, 0)}, "must not be zero"),
        ({"first": (0, 0)}, "first"),
    ],
)
def test_what_makes_no_sense_is_refused(changes, words):
    given = {"first": (0, 0, 0), "last": (8, 0, 0), "length": 10.0, "edges": 8} | changes
    with pytest.raises(ValueError, match=words):
        catenary(given.pop("first"), given.pop("last"), **given)
