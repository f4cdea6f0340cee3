"""Modes from matrices of finite elements: against analytic beams, dense against sparse, and what is refused."""

from __future__ import annotations

import numpy as np
import pytest
import scipy
from beams import Beam

import polhode as ph
from polhode.flexible.matrices import skew

BEAM = Beam()
N = 12
ENDS = {"root": 0, "tip": N}


def reduced(**options):
    given = {"nodes": ENDS, "modes": 8, **options}
    return ph.flexible.reduced(*BEAM.matrices(N), BEAM.points(N), **given)


def test_free_modes_have_the_frequencies_of_beams():
    part = reduced(interfaces=(), modes=10)
    scale = np.sqrt(BEAM.bending / BEAM.line_mass) / BEAM.length**2
    bending = scale * np.array([4.7300407, 7.8532046, 10.9956078, 14.1371655, 17.2787597]) ** 2
    torsion = np.pi / BEAM.length * np.sqrt(BEAM.shear * BEAM.torsion / (2 * BEAM.density * BEAM.moment))
    extension = np.pi / BEAM.length * np.sqrt(BEAM.modulus / BEAM.density)
    expected = np.sort([*np.repeat(bending, 2), torsion, extension])[:10]
    # Linear interpolation along the beam is of order 2: (π/N)²/24.
    np.testing.assert_allclose(part.frequencies, expected, rtol=4e-3)
    np.testing.assert_allclose(part.frequencies[:6], expected[:6], rtol=1e-3)
    # Modes of a free body have no momentum, and mass 1.
    np.testing.assert_allclose(part.modal.modal_mass, np.eye(10), atol=1e-9)
    assert np.max(np.abs(part.modal.first_moments)) < 1e-9
    assert np.max(np.abs(part.modal.spins)) < 1e-9


def test_static_modes_carry_loads_exactly():
    part = reduced(modes=2)
    assert len(part.frequencies) == 12 + 2 - 6
    modal = part.modal
    # A force on the tip, balanced by force and moment of the root: the cantilever, whatever the vibrations.
    load = modal.shapes[2].T @ np.array([0.0, 0.0, 1.0]) - modal.shapes[1].T @ np.array([0.0, 0.0, 1.0])
    load = load + modal.turns[1].T @ np.array([0.0, 1.0, 0.0]) * BEAM.length
    eta = np.linalg.solve(modal.stiffness, load)
    moved = modal.shapes[2] @ eta - modal.shapes[1] @ eta
    turned = modal.turns[1] @ eta
    tip = moved - np.cross(turned, np.array([BEAM.length, 0.0, 0.0]))
    np.testing.assert_allclose(tip, [0, 0, BEAM.length**3 / (3 * BEAM.bending)], rtol=1e-8, atol=1e-12)


@pytest.mark.exhaustive
def test_sparse_matrices_give_the_same_part():
    n = 90
    beam = Beam(length=2.0)
    options = {"nodes": {"root": 0, "tip": n}, "modes": 4}
    dense, sparse = (
        ph.flexible.reduced(*beam.matrices(n, sparse=kind), beam.points(n), **options) for kind in (False, True)
    )
    np.testing.assert_allclose(sparse.frequencies, dense.frequencies, rtol=1e-6)
    # Signs and turns of equal modes aside: the compliance of the tip.
    tips = [(part.modal.shapes[2], part.modal.stiffness) for part in (dense, sparse)]
    compliances = [shape @ np.linalg.solve(stiffness, shape.T) for shape, stiffness in tips]
    np.testing.assert_allclose(compliances[1], compliances[0], rtol=1e-5, atol=1e-9 * np.max(compliances[0]))


def test_lumped_masses_and_modes_of_ones_own_are_the_same_part():
    K = BEAM.matrices(N)[1]
    lumped = np.zeros((N + 1, 6))
    halves = BEAM.line_mass * BEAM.length / N * np.where(np.isin(np.arange(N + 1), (0, N)), 0.5, 1.0)
    lumped[:, :3], lumped[:, 3:] = halves[:, None], 1e-4 * halves[:, None]
    nodal = ph.flexible.reduced(np.diag(lumped.reshape(-1)), K, BEAM.points(N), nodes=ENDS, modes=3)
    shapes = nodal.shapes + 0.0
    # With some rigid-body motion in the modes, which the frame takes out again.
    shapes[:, 2, 0] += 0.3
    exported = ph.flexible.from_modes(
        BEAM.points(N),
        halves,
        shapes,
        nodal.modal.stiffness,
        inertias=1e-4 * halves[:, None, None] * np.eye(3),
        nodes=ENDS,
    )
    np.testing.assert_allclose(exported.frequencies, nodal.frequencies, rtol=1e-8)
    np.testing.assert_allclose(exported.modal.inertia_curvatures, nodal.modal.inertia_curvatures, atol=1e-9)
    np.testing.assert_allclose(exported.modal.shapes, nodal.modal.shapes, atol=1e-8)
    given = ph.flexible.reduced(
        np.diag(lumped.reshape(-1)), K, BEAM.points(N), nodes=ENDS, modes=shapes.reshape(-1, shapes.shape[2])
    )
    np.testing.assert_allclose(given.modal.spin_slopes, nodal.modal.spin_slopes, atol=1e-9)


def test_a_patch_follows_rigid_motions_and_spreads_loads():
    rng = np.random.default_rng(0)
    points = rng.standard_normal((12, 3))
    part = solid(points)
    modal = part.modal
    moved = np.asarray(part.displacements(np.ones(len(part.frequencies))))
    patch = [3, 5, 8]
    weights = np.array([1.0, 2.0, 1.0]) / 4
    np.testing.assert_allclose(modal.points[2] + part.centre, weights @ points[patch], atol=1e-12)
    np.testing.assert_allclose(modal.shapes[2].sum(axis=1), weights @ moved[patch], atol=1e-12)
    # The rotation leaves the least squares of displacements: their moments about the mean place vanish.
    arms = points[patch] - weights @ points[patch]
    theta = modal.turns[2].sum(axis=1)
    rest = moved[patch] - weights @ moved[patch] - np.cross(theta, arms)
    np.testing.assert_allclose(weights @ np.cross(arms, rest), 0.0, atol=1e-12)
    assert modal.rotates == (False, False, True)
    np.testing.assert_allclose(modal.turns[1], 0.0)


def solid(points, **options):
    """Points with springs between all of them, three displacements each."""
    n = len(points)
    K = np.zeros((3 * n, 3 * n))
    for i in range(n):
        for j in range(i):
            d = (points[i] - points[j]) / np.linalg.norm(points[i] - points[j])
            row = np.zeros(3 * n)
            row[3 * i : 3 * i + 3], row[3 * j : 3 * j + 3] = d, -d
            K += 100.0 * np.outer(row, row)
    M = np.diag(np.repeat(np.linspace(1.0, 2.0, n), 3))
    nodes = {"corner": 0, "face": ph.flexible.Patch([3, 5, 8], weights=[1.0, 2.0, 1.0])}
    return ph.flexible.reduced(M, K, points, **{"nodes": nodes, "modes": 5, **options})


def test_interfaces_of_points_leave_the_rest_to_inertia():
    points = np.random.default_rng(0).standard_normal((12, 3))
    # Three displacements of one point and six of a patch; one point alone, where the body may turn; none.
    assert len(solid(points).frequencies) == 5 + 9 - 6
    assert len(solid(points, interfaces=("corner",)).frequencies) == 5 + 3 - 3
    every = solid(points, interfaces=(), modes=30)
    assert len(every.frequencies) == 30
    squares = scipy.linalg.eigh(every.modal.stiffness, every.modal.modal_mass, eigvals_only=True)
    np.testing.assert_allclose(every.frequencies, np.sqrt(squares), rtol=1e-9)
    # Forces of the corner that the face balances are carried by static modes as by all modes of the body.
    compliances = []
    for part in (solid(points, modes=0), every):
        arm = skew(part.modal.points[1] - part.modal.points[2])
        loads = part.modal.shapes[1] - part.modal.shapes[2] + arm @ part.modal.turns[2]
        compliances.append(loads @ np.linalg.solve(part.modal.stiffness, loads.T))
    np.testing.assert_allclose(compliances[0], compliances[1], rtol=1e-8)


def test_scaled_parts_are_those_of_scaled_matrices():
    M, K = BEAM.matrices(N)
    options = {"nodes": ENDS, "modes": 2, "damping": 0.02, "rayleigh": (0.3, 1e-6)}
    part = ph.flexible.reduced(M, K, BEAM.points(N), **options).scaled(stiffness=4.0, mass=2.0)
    direct = ph.flexible.reduced(2.0 * M, 4.0 * K, BEAM.points(N), **options)
    np.testing.assert_allclose(part.frequencies, direct.frequencies, rtol=1e-9)
    normal = np.sqrt(2.0)
    np.testing.assert_allclose(np.asarray(part.modal.damping) / normal**2, direct.modal.damping, atol=1e-6 * 1e3)
    np.testing.assert_allclose(part.modal.mass, direct.modal.mass, rtol=1e-12)


FREE = scipy.linalg.eigh(*reversed(BEAM.matrices(N)), subset_by_index=(0, 8))[1]
"""Modes of the free beam, six of rigid-body motions first."""

ELASTIC_AND_TURNING = FREE[:, 5:]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"mass": lambda M: M[:-1]}, "square matrix"),
        ({"mass": lambda M: -M}, "negative direction"),
        ({"mass": lambda M: M + 0.1 * np.triu(M, 1)}, "symmetric"),
        ({"mass": lambda M: M[::-1, ::-1]}, "not that of a body"),
        ({"mass": lambda M: M[:-6, :-6]}, "same displacements"),
        ({"stiffness": lambda K: K - 1e-3 * np.max(K) * np.eye(len(K))}, "negative direction"),
        ({"stiffness": lambda K: K + np.diag(1e6 * (np.arange(len(K)) == 1))}, "translation along y, rotation about z"),
        ({"stiffness": lambda K: scipy.sparse.csr_array(K + 1j * K)}, "real numbers"),
        ({"stiffness": lambda K: np.where(np.arange(len(K)) == 3, np.nan, K)}, "finite"),
        ({"points": lambda x: x[:-1]}, "points have"),
        ({"points": lambda x: x[:, :2]}, "shape \\(N, 3\\)"),
        ({"nodes": lambda _: {"tip": 40}}, "nodes 0 to 12"),
        ({"nodes": lambda _: {"tip": [1, 1]}}, "named once"),
        ({"nodes": lambda _: [1, 2]}, "must map names"),
        ({"nodes": lambda _: {"tip": ph.flexible.Patch([1, 2], [1.0, -1.0])}}, "positive numbers"),
        ({"modes": lambda _: -1}, "modes"),
        ({"modes": lambda _: 1000}, "at most"),
        ({"modes": lambda _: np.ones((5, 2))}, "one a column"),
        ({"modes": lambda _: np.ones((6 * N + 6, 2))}, "depend on each other"),
        ({"modes": lambda _: ELASTIC_AND_TURNING}, "rigid-body modes out"),
        ({"interfaces": lambda _: ("tup",)}, "Did you mean `tip`"),
        ({"interfaces": lambda _: ("tip", "root", "tip")}, "displacements of 'tip' follow from each other"),
        ({"frame": lambda _: "middle"}, "no node"),
        ({"damping": lambda _: -0.1}, "negative"),
        ({"mass": lambda M: ph.Parameter("scale", 1.0) * M}, "`mass` is computed with at once .* Make the part"),
        ({"damping": lambda _: ph.Parameter("damping", 0.1)}, "`damping` is computed with at once"),
    ],
)
def test_what_makes_no_sense_is_refused(change, said):
    M, K = BEAM.matrices(N)
    given = {"mass": M, "stiffness": K, "points": BEAM.points(N), "nodes": ENDS}
    defaults = {"modes": 2, "interfaces": ("root",), "frame": "mean", "damping": 0.0}
    ((name, changed),) = change.items()
    given = {**given, **defaults, name: changed({**given, **defaults}[name])}
    with pytest.raises(ValueError, match=said):
        ph.flexible.reduced(**given)


@pytest.mark.parametrize(
    ("first", "stiffness", "said"),
    [
        # Round-off would be all that is left of a rigid-body mode, and become a mode.
        (5, np.eye(4), "rigid-body modes out"),
        (6, np.triu(np.full((3, 3), 0.1)) + np.eye(3), "symmetric"),
        (6, np.array([1.0, np.nan, 2.0]), "finite"),
    ],
)
def test_modes_that_make_no_sense_are_refused(first, stiffness, said):
    shapes = FREE[:, first:].reshape(N + 1, 6, -1)
    inertias = np.broadcast_to(1e-3 * np.eye(3), (N + 1, 3, 3))
    with pytest.raises(ValueError, match=said):
        ph.flexible.from_modes(BEAM.points(N), np.ones(N + 1), shapes, stiffness, nodes=ENDS, inertias=inertias)


def test_interfaces_that_share_a_node_are_named():
    with pytest.raises(ValueError, match="'root', 'hinge' follow") as refused:
        reduced(nodes={"root": 0, "tip": N, "hinge": 0})
    assert "'tip'" not in str(refused.value)
    # Attached without static modes of its own, it moves as the other name of the node does.
    modal = reduced(nodes={"root": 0, "tip": N, "hinge": 0}, interfaces=("root", "tip")).modal
    np.testing.assert_array_equal(modal.shapes[1], modal.shapes[3])


@pytest.mark.parametrize("sparse", [False, True])
def test_two_parts_are_refused(sparse):
    M, K = BEAM.matrices(N)
    K[6 * 5 :, : 6 * 5] = K[: 6 * 5, 6 * 5 :] = 0.0
    one, two = (BEAM.matrices(k)[1] for k in (4, N - 5))
    K[: 6 * 5, : 6 * 5], K[6 * 5 :, 6 * 5 :] = one, two
    kind = scipy.sparse.csr_array if sparse else np.asarray
    with pytest.raises(ValueError, match=r"consists of several|rotation"):
        ph.flexible.reduced(kind(M), kind(K), BEAM.points(N), nodes=ENDS, interfaces=("root",), modes=2)
