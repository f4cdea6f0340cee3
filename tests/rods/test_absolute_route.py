"""The absolute route is held against matrix logarithms and differences before anything is held against it."""

import numpy as np
import pytest
from absolute_route import Edges, Motion, State, follow, matrix, product, roll_up, spaghetti, start
from scipy.linalg import logm

RNG = np.random.default_rng(7)
NODES = 9


@pytest.fixture(scope="module")
def scattered():
    """Nodes with rotations of up to 1.6 between neighbours, moving arbitrarily."""
    p = RNG.normal(size=(4, 1)) + 0.25 * RNG.normal(size=(4, NODES))
    return State(p / np.linalg.norm(p, axis=0), *RNG.normal(size=(3, 3, NODES)))


def move_nodes(state, t):
    angle = 0.5 * t * np.linalg.norm(state.omega, axis=0)
    turn = np.vstack((np.cos(angle), 0.5 * t * np.sinc(angle / np.pi) * state.omega))
    return Edges(product(turn, state.p), state.x + t * state.u)


def test_logarithms_are_those_of_matrices(scattered):
    frames = np.tile(np.eye(4), (NODES, 1, 1))
    frames[:, :3, :3], frames[:, :3, 3] = matrix(scattered.p).transpose(2, 0, 1), scattered.x.T
    for e, found in enumerate(Edges(scattered.p, scattered.x).log[:, 0].T):
        L = np.real(logm(np.linalg.solve(frames[e], frames[e + 1])))
        np.testing.assert_allclose(found, (L[2, 1], L[0, 2], L[1, 0], *L[:3, 3]), atol=1e-13)


def test_derivatives_of_logarithms_match_differences(scattered):
    rates, h = move_nodes(scattered, 0.0).rates(scattered.omega, scattered.u), 1e-3
    before, at, after = (
        np.array([move_nodes(scattered, k * h).log for k in ks]) for ks in ((-1, -2, -3), (0,), (1, 2, 3))
    )
    first = np.tensordot((3 / 4, -3 / 20, 1 / 60), after - before, 1) / h
    second = np.tensordot((3 / 2, -3 / 20, 1 / 90), after + before - 2 * at, 1) / h**2
    np.testing.assert_allclose(rates.first, first, atol=1e-11)
    np.testing.assert_allclose(rates.second_of_U, second[3:], atol=2e-8)


def test_forces_do_the_work_of_the_stresses(scattered):
    edges = Edges(scattered.p, scattered.x)
    stresses = RNG.normal(size=(6, 4, NODES - 1))
    first, second, pull = edges.pull_back(stresses)
    nodes = (first, scattered.omega[:, :-1]), (second, scattered.omega[:, 1:]), (pull, np.diff(scattered.u))
    work = sum(np.einsum("ikn,in->kn", load, rate) for load, rate in nodes)
    rates = edges.rates(scattered.omega, scattered.u).first[:, 0]
    np.testing.assert_allclose(work, np.einsum("ikn,in->kn", stresses, rates), atol=1e-13)


@pytest.mark.parametrize("beam", [roll_up(100.0), spaghetti()], ids=["roll-up", "spaghetti"])
def test_accelerations_keep_the_constraint(beam):
    (state,) = follow(beam, [0.1], 1e-8)
    accelerations, _ = Motion(beam).accelerations(0.1, state)

    def shear_rate(t):
        omega, u = state.omega + t * accelerations[:3], state.u + t * accelerations[3:]
        return move_nodes(state, t).rates(omega, u).first[3:5]

    h = 1e-5
    assert np.abs(accelerations).max() > 1
    np.testing.assert_allclose((shear_rate(h) - shear_rate(-h)) / (2 * h), 0, atol=1e-7)


def test_nodes_far_apart_in_rotation_are_refused():
    p = np.array([[1.0, 0.0], [0.0, 1.0], [0.0, 0.0], [0.0, 0.0]])
    with pytest.raises(ValueError, match=r"turned by 3\.14"):
        Edges(p, np.zeros((3, 2)))


def test_the_spaghetti_gains_the_momentum_of_its_load():
    beam = spaghetti()
    y = State.of(start(beam))
    assert not y.u.any()
    (state,) = follow(beam, [0.5], 1e-8)
    mass = np.r_[0.5, np.ones(15), 0.5] * beam.spacing
    np.testing.assert_allclose(state.u @ mass, (0.1 * 80 * 0.5**2 / 2, 0, 0), atol=1e-9)
