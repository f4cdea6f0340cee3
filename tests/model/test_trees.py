"""Recursions along trees: short cuts and loops change nothing, coordinates that follow others carry their loads."""

from __future__ import annotations

import itertools
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from test_minimal import tree
from test_mixed import accelerations

import polhode as ph
from polhode.integrators.explicit.half_explicit_projection import onto_velocity
from polhode.linalg.blocks import to_dense
from polhode.multibody.coordinates.tree import coordinates, link_rows
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.multibody.coordinates.tree.dependent_coordinates import reduce_tree
from polhode.multibody.coordinates.tree.joint_forces import CoordinateIndex
from polhode.multibody.coordinates.tree.mass import lump
from polhode.systems.mechanical.tangent import Weights, sum_of_tangents

TIME = jnp.zeros(())


@pytest.fixture(scope="module")
def system() -> Any:
    """A tree with every kind of joint, away from its start."""
    assembled, (q, v) = tree().assemble("minimal")
    random = np.random.default_rng(4)
    q = assembled.configuration.move(q, jnp.asarray(0.3 * random.standard_normal(assembled.n)))
    return assembled, q, jnp.asarray(v + random.standard_normal(assembled.n))


def matrix(of: Any, q: Any) -> np.ndarray:
    return np.asarray(evaluated(lambda q: to_dense(of.mass(q), (of.n, of.n)), q))


def agree(found: Any, expected: Any) -> None:
    for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(a, b, rtol=0, atol=2e-12 * np.abs(b).max(initial=1.0))


@pytest.mark.exhaustive
def test_what_lies_on_the_axis_of_a_hinge_may_belong_to_its_carrier(system, monkeypatch):
    system, q, v = system
    parts = lambda q, v: (  # noqa: E731
        to_dense(system.mass(TIME, q), (system.n,) * 2), system.force(TIME, q, v),
        to_dense(system.stiffness(TIME, q, v), (system.n,) * 2), to_dense(system.damping(TIME, q, v), (system.n,) * 2),
    )  # fmt: skip
    found = evaluated(parts, q, v)
    lumped = lump(system.coordinates.links)
    hinges = [k for k, link in enumerate(system.coordinates.links) if link.motion.frame_with_axis is not None]
    assert hinges
    assert all(lumped[k].inertia.second[2, 2] == 0 for k in hinges)
    monkeypatch.setattr(coordinates, "lump", list)
    agree(found, evaluated(parts, q, v))


@pytest.mark.exhaustive
def test_tangents_are_those_of_the_forces_and_lose_no_digits_far_from_the_origin(system):
    system, q, v = system
    size, still = (system.n,) * 2, jnp.zeros(system.n)

    def parts(q, v):
        K, C = system.stiffness(TIME, q, still), system.damping(TIME, q, v)
        return to_dense(K, size), to_dense(C, size)

    def differentiated(q, v):
        of_places = lambda theta: -system.force(TIME, system.configuration.move(q, theta), still)  # noqa: E731
        return jax.jacfwd(of_places)(still), jax.jacfwd(lambda v: -system.force(TIME, q, v))(v)

    found = evaluated(parts, q, v)
    agree(found, evaluated(differentiated, q, v))
    far = lambda x: x + 2.0**26 if x.shape == (3,) else x  # noqa: E731
    free = [link.motion.n == 6 for link in system.coordinates.links if link.motion.n]
    moved = tuple(jax.tree.map(far, point) if is_free else point for point, is_free in zip(q, free, strict=False))
    agree(evaluated(parts, moved, v), found)


@pytest.mark.exhaustive
def test_loops_over_links_give_the_same_as_recursions_without(system, monkeypatch):
    system, q, v = system

    def parts(of: Any) -> Any:
        functions = lambda q, v: (  # noqa: E731
            of.accelerations(TIME, q, v)[0], of.force(TIME, q, v), of.energy(TIME, q, v), of.motion(q, v),
            to_dense(of.mass(TIME, q), (of.n,) * 2), of.coordinates.momentum(q, v),
            to_dense(of.stiffness(TIME, q, v), (of.n,) * 2), to_dense(of.damping(TIME, q, v), (of.n,) * 2),
        )  # fmt: skip
        return evaluated(functions, q, v)

    monkeypatch.setattr(link_rows, "LOOPED_LINKS", 2)
    looped, _ = tree().assemble("minimal")
    assert looped.coordinates.looped
    assert not system.coordinates.looped
    agree(parts(looped), parts(system))


@pytest.mark.exhaustive
def test_constraints_on_trees_in_loops_are_solved_with_the_inverse_of_the_mass(monkeypatch):
    """The Schur complement by articulated bodies, beside the elimination of the whole matrix."""

    def closed() -> tuple[Any, Any]:
        random = np.random.default_rng(0)
        corners = np.cumsum(random.uniform(-0.5, 1, (6, 3)), axis=0)
        model = ph.Model(gravity=(0, 0, -9.81))
        last = model.ground
        for k, (begin, end) in enumerate(itertools.pairwise(corners)):
            bar = model.add_body(mass=1.0 + k, inertia=(0.1, 0.2, 0.25), position=(begin + end) / 2)
            model.add(ph.joints.Revolute(last, bar, point=begin, axis=random.standard_normal(3)))
            last = bar
        model.add(ph.joints.Spherical(last, model.ground, point=corners[-1]))
        return model.assemble("minimal")

    def parts(of: Any, state: Any) -> Any:
        rates = jnp.asarray(np.random.default_rng(1).standard_normal(of.n))

        def results(q: Any, v: Any) -> Any:
            _, projected = onto_velocity(of, TIME, (q, v))
            return *of.accelerations(TIME, q, projected), projected, of.constraint_rate(TIME, q, projected)

        return evaluated(results, state[0], rates)

    (plain, state), _ = closed(), monkeypatch.setattr(link_rows, "LOOPED_LINKS", 2)
    looped, _ = closed()
    assert (plain.coordinates.looped, looped.coordinates.looped) == (False, True)
    monkeypatch.setattr(JointTree, "mass", None)
    found = parts(looped, state)
    monkeypatch.undo()
    assert np.max(np.abs(found[-1])) < 1e-12
    agree(found, parts(plain, state))


def test_trees_in_loops_have_as_many_arrays_as_kinds_of_joints(monkeypatch):
    monkeypatch.setattr(link_rows, "LOOPED_LINKS", 2)
    counts = [len(jax.tree.leaves(chain(n).assemble("minimal")[0].coordinates)) for n in (3, 9)]
    assert counts[0] == counts[1] < 10


def test_long_chains_accelerate_as_in_closed_form():
    n, length, gravity = 64, 0.2, 9.81
    random = np.random.default_rng(2)
    masses, inertias = random.uniform(0.2, 0.6, n), random.uniform(0.012, 0.02, n)
    model = ph.Model(gravity=(0, 0, -gravity))
    last = model.ground
    for k in range(n):
        body = model.add_body(mass=masses[k], inertia=(0.01, inertias[k], 0.02), position=((k + 0.5) * length, 0, 0))
        model.add(ph.joints.Revolute(last, body, point=(k * length, 0, 0), axis=(0, 1, 0)))
        last = body
    system, (q, v) = model.assemble("minimal")
    assert system.coordinates.looped
    q = system.configuration.move(q, jnp.asarray(0.3 * random.standard_normal(n)))
    v = jnp.asarray(random.standard_normal(n))
    found = np.cumsum(evaluated(lambda q, v: system.accelerations(TIME, q, v)[0], q, v))
    # In angles from the horizontal; centres are at half the length.
    angles, rates = np.cumsum(np.concatenate(q)), np.cumsum(v)
    arms = length * (np.tri(n) - 0.5 * np.eye(n))
    shares = arms.T @ (masses[:, None] * arms)
    apart = angles[:, None] - angles
    M = shares * np.cos(apart) + np.diag(inertias)
    expected = np.linalg.solve(M, gravity * (masses @ arms) * np.cos(angles) - shares * np.sin(apart) @ rates**2)
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-10 * np.abs(expected).max())


def chain(n: int) -> ph.Model:
    """Links on hinges whose axes alternate, of different masses."""
    model, last = ph.Model(gravity=(0, 0.3, -9.81)), None
    for k in range(n):
        body = model.add_body(mass=0.3 + 0.1 * np.cos(k), inertia=(0.01, 0.02, 0.02), position=(0.2 * k + 0.1, 0, 0))
        axis = (0, 0.6, 0.8) if k % 2 else (0, 1, 0)
        model.add(ph.joints.Revolute(model.ground if last is None else last, body, point=(0.2 * k, 0, 0), axis=axis))
        last = body
    return model


@pytest.mark.exhaustive
@pytest.mark.parametrize("gravity", [(0.3, -0.2, -9.81), pytest.param((0.0, 0.0, 0.0), marks=pytest.mark.exhaustive)])
def test_loops_carry_forces_as_absolute_coordinates_do(gravity, monkeypatch):
    model = loaded_tree(gravity)
    expected = evaluated(accelerations, *model.assemble("SO3xR3"))
    assembled, state = model.assemble("minimal")
    without = evaluated(accelerations, assembled, state)
    monkeypatch.setattr(link_rows, "LOOPED_LINKS", 2)
    assembled, state = model.assemble("minimal")
    found = evaluated(accelerations, assembled, state)
    size = max(np.abs(value).max() for value in expected.values())
    assert size > 50
    # In absolute coordinates the rotor has one of its own.
    for name, value in found.items():
        np.testing.assert_allclose(value, expected[name], atol=1e-12 * size, err_msg=name)
        np.testing.assert_allclose(value, without[name], atol=1e-12 * size, err_msg=name)


def loaded_tree(gravity: Any) -> Any:
    """The tree with springs and dampers between bodies, loads, a spring in a joint and a rotor."""
    model = tree()
    model.gravity = jnp.array(gravity)
    first, ball, slider, reverse, *_ = model.bodies
    weld, hinge, screw, free, point = model.bodies[6:11]
    spring = ph.forces.SpringDamper
    here = (0.1, 0.2, 0.3)
    model.add(spring(first, free, here, (1, 2, 3.2), stiffness=40.0, damping=3.0, length=0.4))
    model.add(spring(weld, screw, here, (1, 2, 3.2), stiffness=20.0, damping=1.0, length=0.4))
    model.add(spring(point, hinge, (3, 2, 1), here, stiffness=30.0, damping=2.0, length=0.4))
    model.add(spring(model.ground, reverse, here, (1, 2, 3.2), stiffness=20.0, damping=1.0, length=0.4))
    model.add(ph.forces.PointForce(slider, (0, 1.0, 2.0), point=(1.6, 0, 0.5)))
    model.add(ph.forces.Torque(ball, (0.3, 1.0, 2.0)))
    carrying = model.parts[0][1]
    model.add(ph.forces.JointSpring(carrying, stiffness=30.0, damping=0.2, rest=0.1))
    model.add(ph.joints.RotorInertia(carrying, 0.7))
    return model


@pytest.mark.exhaustive
def test_balance_in_one_sweep_is_that_of_mass_and_forces():
    """Joints of all kinds with loads, efforts and a rotor: inertial forces of an acceleration and all others."""
    of, (q, _) = loaded_tree((0.3, -0.2, -9.81)).assemble("minimal")
    v, a = np.random.default_rng(7).standard_normal((2, of.n))

    def both(q, v, a):
        return of.balance(TIME, q, v, a), to_dense(of.mass(TIME, q), (of.n, of.n)) @ a - of.force(TIME, q, v)

    swept, single = evaluated(both, q, v, a)
    size = np.abs(single).max()
    assert size > 10
    np.testing.assert_allclose(swept, single, rtol=0, atol=1e-12 * size)


@pytest.mark.exhaustive
def test_results_in_loops_are_those_without(monkeypatch):
    """Joints of all kinds on several branches; M loses no digits far from the origin."""
    of, (q, v) = loaded_tree((0.3, -0.2, -9.81)).assemble("minimal")
    assert of.in_loops() is not of
    assert not of.in_loops().coordinates.looped
    monkeypatch.setattr(coordinates, "WORTH_LOOPS", 2)
    looped = of.in_loops()
    assert looped.coordinates.looped
    rates = jnp.asarray(v + np.random.default_rng(7).standard_normal(of.n))
    q = of.configuration.move(q, 0.3 * rates)
    agree(matrix(looped.coordinates, q), matrix(of.coordinates, q))
    found, expected = (evaluated(lambda q, v, x=x: x.accelerations(TIME, q, v)[0], q, rates) for x in (looped, of))
    np.testing.assert_allclose(found, expected, rtol=0, atol=1e-12 * np.abs(expected).max())


@pytest.mark.exhaustive
def test_followers_carry_their_loads_to_what_they_follow(system, monkeypatch):
    system, q, _ = system
    whole: JointTree = system.coordinates
    single = [k for k, link in enumerate(whole.links) if link.motion.n == 1]
    place = lambda k, component=0: CoordinateIndex(  # noqa: E731
        link=k, component=component, velocity=whole.links[k].first + component
    )
    inner, middle, outer, last = (place(k) for k in single)
    # One follows two, the other one.
    reduced = reduce_tree(whole, [(outer, {inner: 0.7, middle: -1.3}, 0.1), (last, {middle: 0.4}, 0.0)])
    movable = [k for k, link in enumerate(whole.links) if link.motion.n]
    points = [x for k, x in zip(movable, q, strict=True) if k not in {outer.link, last.link}]
    M = matrix(whole, reduced.whole(tuple(points)))
    G = np.array([np.asarray(reduced.rates(jnp.asarray(e))) for e in np.eye(reduced.n)]).T
    assert G.shape == (whole.n, whole.n - 2)
    agree(matrix(reduced, tuple(points)), G.T @ M @ G)
    monkeypatch.setattr(coordinates, "WORTH_LOOPS", 2)
    agree(matrix(reduced.in_loops(), tuple(points)), G.T @ M @ G)


@pytest.mark.exhaustive
def test_sum_of_matrices_in_one_sweep(system):
    """M, C and K T at once are those one by one, with joints whose velocities don't commute."""
    of, q, v = system
    increment = 0.4 * jnp.asarray(np.random.default_rng(5).standard_normal(of.n))
    weights = Weights(1.0, 0.02, 0.01)
    whole = lambda tangent: to_dense(tangent.matrix, (of.n, of.n))  # noqa: E731
    swept = evaluated(lambda q, v, u: whole(of.tangent(TIME, q, v, u, weights)), q, v, increment)
    single = evaluated(lambda q, v, u: whole(sum_of_tangents(of, TIME, q, v, u, weights)), q, v, increment)
    np.testing.assert_allclose(swept, single, rtol=1e-11, atol=1e-11)
