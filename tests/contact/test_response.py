"""Impacts of several contacts at once and active sets, against enumerations and laws of conservation."""

from __future__ import annotations

import itertools

import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.contact.complementarity import complement
from polhode.contact.response import impact, respond
from polhode.contact.system import UnilateralSystem
from polhode.events.event import Function
from polhode.events.impacts import Impact
from polhode.systems.mechanical import Mechanical

G = 9.81


def solve_by_enumeration(A, b):
    """The solution of a complementarity problem with a definite matrix, by trying all sets."""
    k = len(b)
    for members in itertools.product((False, True), repeat=k):
        basic, z = np.array(members), np.zeros(k)
        z[basic] = np.linalg.solve(A[np.ix_(basic, basic)], -b[basic])
        if (z > -1e-12).all() and (A @ z + b > -1e-12).all():
            return z
    raise AssertionError


@pytest.mark.exhaustive
def test_small_complementarity_problems_have_their_only_solution():
    rng = np.random.default_rng(3)
    for _ in range(12):
        rows = rng.normal(size=(5, 6))
        rows /= np.linalg.norm(rows, axis=1)[:, None]
        A, b = rows @ rows.T, rng.normal(size=5)
        every, start = jnp.ones(5, bool), jnp.asarray(rng.random(5) < 0.5)
        solution = complement(jnp.asarray(A), jnp.asarray(b), every, start, jnp.asarray(1e-12))
        np.testing.assert_allclose(solution.z, solve_by_enumeration(A, b), atol=1e-9)


def contact(gap, restitution):
    return Impact(Function(gap), jnp.asarray(restitution), rests=True)


def row_of_masses(masses):
    """Masses on a line."""
    count = len(masses)
    return Mechanical(ph.spaces.Rn(count), jnp.diag(jnp.asarray(masses)), lambda t, q, v: jnp.zeros(count))


@pytest.mark.exhaustive
def test_newtons_law_holds_for_touching_balls_together():
    system = row_of_masses([1.0, 1.0, 1.0])
    contacts = [contact(lambda t, s, i=i: s[0][i + 1] - s[0][i], 1.0) for i in range(2)]
    v = impact(contacts, jnp.zeros(()), (jnp.zeros(3), jnp.array([1.0, 0.0, 0.0])), system)
    np.testing.assert_allclose(v, [-1 / 3, 2 / 3, 2 / 3], atol=1e-12)


BAR = Mechanical(ph.spaces.Rn(2), jnp.diag(jnp.array([1.0, 1 / 12])), lambda t, q, v: jnp.array([-G, 0.0]))
"""A bar of length and mass 1 above the floor: its height and its inclination, which is small."""


def ends(restitution):
    return [contact(lambda t, s, sign=sign: s[0][0] + sign * 0.5 * jnp.sin(s[0][1]), restitution) for sign in (-1, 1)]


@pytest.mark.exhaustive
@pytest.mark.sampled(3)
@pytest.mark.parametrize("restitution", [0.0, 0.4, 1.0])
def test_a_bar_that_lands_flat_rebounds_flat(restitution):
    closed, shortest = jnp.zeros(2, bool), jnp.asarray(1e-7)
    state = jnp.zeros(2), jnp.array([-2.0, 0.0])
    response = respond(ends(restitution), jnp.zeros(()), state, BAR, closed, closed, shortest)
    np.testing.assert_allclose(response.velocity, [2.0 * restitution, 0.0], atol=1e-11)
    np.testing.assert_allclose(response.impulses, np.full(2, 1 + restitution), rtol=1e-11)
    assert response.closed.tolist() == [restitution == 0] * 2


@pytest.mark.exhaustive
def test_one_end_that_lands_lifts_none_through_the_floor_and_gains_no_energy():
    # One end lies on the floor, the other one strikes it: without restitution the first one leaves it or stays.
    state = jnp.zeros(2), jnp.array([-1.0, -2.0])
    response = respond(
        ends(0.0), jnp.zeros(()), state, BAR, jnp.array([True, False]), jnp.zeros(2, bool), jnp.asarray(1e-7)
    )
    M = np.diag([1.0, 1 / 12])
    rates = np.array([[1.0, -0.5], [1.0, 0.5]]) @ response.velocity
    assert (rates > -1e-12).all()
    assert (response.impulses > -1e-12).all()
    assert response.velocity @ M @ response.velocity <= state[1] @ M @ state[1]


@pytest.mark.exhaustive
def test_forces_of_two_supports_are_those_of_statics():
    system = UnilateralSystem(BAR, tuple(ends(0.0)), jnp.array([True, True]))
    np.testing.assert_allclose(system.forces(jnp.zeros(()), (jnp.zeros(2), jnp.zeros(2))), [G / 2, G / 2], rtol=1e-11)
    one = system.with_active_set([True, False])
    # A bar that stands on one end turns: 1/4 of its weight is left there.
    np.testing.assert_allclose(one.forces(jnp.zeros(()), (jnp.zeros(2), jnp.zeros(2))), [G / 4, 0.0], atol=1e-11)


@pytest.mark.exhaustive
def test_a_bounce_shorter_than_the_time_resolution_is_rest():
    mass = Mechanical(ph.spaces.Rn(1), jnp.eye(1), lambda t, q, v: jnp.array([-G]))
    floor = [contact(lambda t, s: s[0][0], 0.5)]
    no, shortest = jnp.zeros(1, bool), 1e-7
    for flight, rests in ((0.9, True), (1.1, False)):
        v = -flight * shortest * G / (2 * 0.5)
        response = respond(floor, jnp.zeros(()), (jnp.zeros(1), jnp.array([v])), mass, no, no, jnp.asarray(shortest))
        assert response.closed.tolist() == [rests]
        np.testing.assert_allclose(response.velocity, [0.0 if rests else -0.5 * v], atol=1e-20)


@pytest.mark.exhaustive
def test_rounding_keeps_no_contact_closed_whose_force_vanishes():
    pressed = Mechanical(ph.spaces.Rn(2), jnp.eye(2), lambda t, q, v: jnp.array([0.0, -1.0]))
    stops = [contact(lambda t, s: s[0][0], 0.0), contact(lambda t, s: s[0][1], 0.0)]
    both, first = jnp.array([True, True]), jnp.array([True, False])
    for speed in (-1e-17, 0.0, 1e-17):
        state = (jnp.zeros(2), jnp.array([speed, 0.0]))
        response = respond(stops, jnp.zeros(()), state, pressed, both, first, jnp.asarray(1e-7))
        assert response.closed.tolist() == [False, True]
