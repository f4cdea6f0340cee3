"""Contacts of many free bodies in lists: forces, sums and energies that are known."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.contact.contact_problem import ContactProblem
from polhode.contact.solver import solve as solve_dense
from polhode.contact.sparse.free_bodies import ContactRows, FreeBodies, Spatial
from polhode.contact.sparse.gauss_seidel import gauss_seidel
from polhode.contact.sparse.listed_contacts import ListedContacts
from polhode.contact.sparse.sparse_problem import ScaledProblem, SparseProblem
from polhode.contact.sparse.sparse_solver import solve

G = 9.81
MASSES = 0.5 + 1.5 * np.arange(10) / 9


def tower() -> ph.Problem:
    """Ten boxes on top of each other, on a floor: 220 points could touch."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    for k, mass in enumerate(MASSES):
        box = ph.shapes.Box((0.2, 0.2, 0.2))
        model.add_body(mass=float(mass), shape=box, position=(0, 0, 0.1 + 0.2 * k), name=f"box-{k}")
    model.contacts(friction=0.5)
    return model.problem(t1=0.05, h=0.005)


def chain(count: int) -> SparseProblem:
    """Spheres of different masses in a row that is pushed together along it and turned, each touching the next."""
    rng = np.random.default_rng(1)
    mass = rng.uniform(0.5, 2.0, count)
    places = np.zeros((count + 1, 3))
    places[:-1, 0] = np.arange(count)
    first = np.append(np.arange(count - 1), count)
    second = np.append(np.arange(1, count), 0)
    points = np.append(np.arange(count - 1) + 0.5, -0.5)[:, None] * np.eye(3)[0]
    frames = np.broadcast_to(np.eye(3), (count, 3, 3))
    arms = jnp.asarray(points - places[first]), jnp.asarray(points - places[second])
    rows = ContactRows.at(jnp.asarray(first), jnp.asarray(second), jnp.asarray(frames), arms, 3)
    # The contact with the ground pushes back.
    inverse = np.append(1 / mass, 0.0)
    bodies = FreeBodies(jnp.asarray(inverse), 10.0 * jnp.asarray(inverse)[:, None, None] * jnp.eye(3))
    speeds = rng.normal(size=(2, count + 1, 3))
    speeds[:, -1] = 0.0
    speeds[1, :-1, 0] -= 3 * np.arange(count)
    velocity = rows.slips(Spatial(*map(jnp.asarray, speeds)))
    k = len(first)
    return SparseProblem(
        bodies, rows, rows, velocity, jnp.full((k, 2), 0.4), jnp.ones(k, bool), jnp.zeros(k), None, None,
        jnp.arange(count + 1),
    )  # fmt: skip


@pytest.mark.exhaustive
def test_impulses_are_those_of_matrices():
    problem = chain(5)
    zero = jnp.zeros(problem.velocity.shape)
    units = jnp.eye(zero.size).reshape(zero.size, *zero.shape)
    count = len(problem.bodies.mass)
    column = lambda P: problem.rows.slips(problem.bodies.respond(problem.columns.spread(P, count)))  # noqa: E731
    delassus = jax.vmap(column)(units).reshape(zero.size, zero.size).T
    dense = solve_dense(ContactProblem(delassus, problem.velocity.reshape(-1), problem.friction, problem.active), zero)
    sparse = jax.jit(solve)(problem, zero)
    assert bool(dense.solved)
    assert float(sparse.residual) < 1e-10
    assert np.count_nonzero(np.asarray(dense.impulses)[:, 0] > 0) >= 3, "hardly anything presses"
    np.testing.assert_allclose(sparse.impulses, dense.impulses, atol=1e-8 * float(jnp.max(dense.impulses)))


def test_sweeps_lead_to_the_impulses_of_newtons_method():
    problem = chain(5)
    scaled = ScaledProblem.of(problem)
    zero = jnp.zeros(problem.velocity.shape)
    sweep = jax.jit(lambda z: gauss_seidel(scaled, z, jnp.asarray(2000), jnp.asarray(1e-14), jnp.asarray(1.0)))
    z, grows = sweep(zero)
    assert not bool(grows)
    impulses = jax.jit(solve)(problem, zero).impulses
    np.testing.assert_allclose(scaled.scale * z, impulses, atol=1e-8 * float(jnp.max(impulses)))


@pytest.mark.exhaustive
def test_a_tower_stands_on_its_weight():
    problem = tower()
    assert isinstance(problem.system.contact_set, ListedContacts)
    run = ph.simulate(problem)
    above = G * np.cumsum(MASSES[::-1])[::-1]
    for k, weight in enumerate(above):
        below = "ground" if k == 0 else f"box-{k - 1}"
        forces = run.contacts[below, f"box-{k}"].force[1:]
        np.testing.assert_allclose(forces, np.broadcast_to((0, 0, weight), forces.shape), atol=1e-8 * above[0])
    energy = run.outputs["kinetic_energy"] + run.outputs["potential_energy"]
    assert np.max(np.diff(energy)) <= 1e-12 * energy[0]
    assert run.audit().accurate
    again = ph.simulate(problem, t1=0.1, initial=run)
    whole = ph.simulate(problem, t1=0.1)
    np.testing.assert_array_equal(again.outputs["positions"][-1], whole.outputs["positions"][-1])


@pytest.mark.exhaustive
def test_more_points_than_there_is_room_for_end_the_run():
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    for k in range(10):
        model.add_body(mass=1.0, shape=ph.shapes.Box((0.2,) * 3), position=(0.2 * k, 0, 0.1), name=f"box-{k}")
    model.contacts(friction=0.5)
    model.limit_contacts(20)
    run = ph.simulate(model.problem(t1=0.05, h=0.005), throw=False)
    assert run.stats["result"] == ph.Result.too_many_contacts


def test_many_free_boxes_have_contacts_in_lists():
    problem = tower()
    assert isinstance(problem.system.contact_set, ListedContacts)
    assert problem.system.contact_set.shape_names[0] == ("ground", "floor")


def test_other_methods_say_that_they_take_no_lists():
    with pytest.raises(ValueError, match="in lists, which runs of `moreau` alone take"):
        ph.simulate(tower(), "rattle")
