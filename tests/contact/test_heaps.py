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
from polhode.contact.sparse.gauss_seidel import SweepTable, gauss_seidel
from polhode.contact.sparse.listed_contacts import ListedContacts
from polhode.contact.sparse.sparse_problem import ScaledProblem, SparseProblem
from polhode.contact.sparse.sparse_solver import PreparedProblem, solve

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
        bodies, rows, velocity, jnp.full((k, 2), 0.4), jnp.ones(k, bool), jnp.zeros(k), None, None,
        jnp.arange(count + 1),
    )  # fmt: skip


@pytest.mark.exhaustive
def test_sweeps_satisfy_the_laws():
    problem = chain(5)
    scaled = ScaledProblem.of(problem)
    zero = jnp.zeros(problem.velocity.shape)
    sweep = jax.jit(
        lambda limit: gauss_seidel(scaled, SweepTable.of(scaled), zero, limit, lambda _: jnp.asarray(1e-12))
    )
    z, left, number = sweep(jnp.asarray(2000))
    assert float(left) <= 1e-12
    # Each sweep alone goes from neighbour to neighbour; without momentum it takes some thousand.
    assert int(number) < 500
    assert broken_laws(problem, np.asarray(scaled.scale * z)) < 1e-10
    early, *_ = sweep(jnp.asarray(10))
    assert broken_laws(problem, np.asarray(scaled.scale * early)) > 1e-4, "the laws hold for anything"


def broken_laws(problem: SparseProblem, P: np.ndarray) -> float:
    """The largest violation of the laws by impulses: signs, cones, complementarity, and friction against slips."""
    first, second = np.asarray(problem.rows.first), np.asarray(problem.rows.second)
    mass, inertia = np.asarray(problem.bodies.mass), np.asarray(problem.bodies.inertia)
    linear, of_first, of_second = (np.asarray(x) for x in problem.rows[2:])
    v, w = np.zeros((len(mass), 3)), np.zeros((len(mass), 3))
    for k in range(len(P)):
        v[second[k]] += mass[second[k]] * P[k] @ linear[k]
        v[first[k]] -= mass[first[k]] * P[k] @ linear[k]
        w[second[k]] += inertia[second[k]] @ (P[k] @ of_second[k])
        w[first[k]] -= inertia[first[k]] @ (P[k] @ of_first[k])
    violations = []
    for k in range(len(P)):
        turns = of_second[k] @ w[second[k]] - of_first[k] @ w[first[k]]
        u = linear[k] @ (v[second[k]] - v[first[k]]) + turns + np.asarray(problem.velocity)[k]
        bound, slip = float(problem.friction[k, 0]) * P[k, 0], np.linalg.norm(u[1:])
        violations += [-P[k, 0], -u[0], abs(P[k, 0] * u[0]), np.linalg.norm(P[k, 1:]) - bound]
        violations.append(np.max(np.abs(slip * P[k, 1:] + bound * u[1:])))
    assert np.count_nonzero(P[:, 0] > 0) >= 3, "hardly anything presses"
    return float(max(violations))


@pytest.mark.exhaustive
def test_impulses_are_those_of_matrices():
    problem = chain(5)
    zero = jnp.zeros(problem.velocity.shape)
    units = jnp.eye(zero.size).reshape(zero.size, *zero.shape)
    count = len(problem.bodies.mass)
    column = lambda P: problem.rows.slips(problem.bodies.respond(problem.rows.spread(P, count)))  # noqa: E731
    delassus = jax.vmap(column)(units).reshape(zero.size, zero.size).T
    dense = solve_dense(ContactProblem(delassus, problem.velocity.reshape(-1), problem.friction, problem.active), zero)
    sparse = jax.jit(solve)(PreparedProblem.of(problem), zero)
    assert bool(dense.solved)
    assert float(sparse.residual) < 1e-10
    np.testing.assert_allclose(sparse.impulses, dense.impulses, atol=1e-8 * float(jnp.max(dense.impulses)))


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


@pytest.mark.exhaustive
def test_other_methods_say_that_they_take_no_lists():
    with pytest.raises(ValueError, match="in lists, which runs of `moreau` alone take"):
        ph.simulate(tower(), "rattle")


def turned_boxes(count: int = 10) -> ph.Model:
    """Boxes above each other, turned at random, that fall on a floor."""
    model, rng = ph.Model(gravity=(0, 0, -G), units="SI"), np.random.default_rng(0)
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    for k in range(count):
        turn = rng.normal(size=4)
        model.add_body(
            mass=1.0, shape=ph.shapes.Box((0.2, 0.2, 0.2)), position=(*rng.uniform(-0.1, 0.1, 2), 0.25 + 0.36 * k),
            rotation=turn / np.linalg.norm(turn), name=f"box-{k}",
        )  # fmt: skip
    model.contacts(friction=0.5)
    return model


def overlap(x: np.ndarray, R: np.ndarray, half: float) -> float:
    """The deepest overlap of cubes, by separating axes: of faces, and across pairs of edges."""
    deepest = 0.0
    for a in range(len(x)):
        for b in range(a):
            across = np.cross(R[a].T[:, None], R[b].T[None]).reshape(9, 3)
            length = np.linalg.norm(across, axis=1)
            axes = np.concatenate((R[a].T, R[b].T, across[length > 1e-6] / length[length > 1e-6, None]))
            reach = half * (np.abs(axes @ R[a]).sum(axis=1) + np.abs(axes @ R[b]).sum(axis=1))
            deepest = max(deepest, -float(np.max(np.abs(axes @ (x[b] - x[a])) - reach)))
    return deepest


@pytest.mark.exhaustive
def test_boxes_that_tumble_come_to_rest():
    h, count = 0.005, 10
    problem = turned_boxes(count).problem(t1=2.5, h=h)
    run = ph.simulate(problem)
    kinetic, potential = (np.asarray(run.outputs[f"{name}_energy"]) for name in ("kinetic", "potential"))
    assert kinetic.max() > 20
    assert kinetic[-1] < 1e-20
    # A body that leaves another one and falls back within a step gains as much.
    assert np.max(np.diff(kinetic + potential)) < count * (G * h) ** 2 / 8
    states = [run.bodies[f"box-{k}"] for k in range(count)]
    x, R = (np.stack([getattr(body, name) for body in states], axis=1) for name in ("position", "rotation"))
    depths = np.array([overlap(x[k], R[k], 0.1) for k in range(0, len(x), 5)])
    assert depths.max() < 5e-3
    assert depths[-1] < 1e-4
    assert np.min(x[:, :, 2] - 0.1 * np.abs(R[:, :, 2]).sum(axis=2)) > -1e-4
    # The floor carries all of it, through points that are in the heap in many ways.
    assert np.isclose(-run.contacts["floor"].force[-1, 2], count * G, rtol=1e-8, atol=0)
    audit = run.audit()
    assert audit["unsolved_steps"].max_drift == 0
    # No step at rest is coarse.
    assert 0 < audit["coarse_steps"].max_drift < np.count_nonzero(kinetic > 1e-12)


def slide(fixed: bool) -> ph.Problem:
    """A small crate that sticks on a larger one, which slides; with others far away, or without."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    lower = model.add_body(
        mass=3.0, shape=ph.shapes.Box((0.4, 0.3, 0.2)), position=(0, 0, 0.1), velocity=(1, 0.5, 0), name="lower"
    )
    upper = model.add_body(
        mass=1.0, shape=ph.shapes.Box((0.2, 0.2, 0.2)), position=(0.05, 0, 0.3), velocity=(1, 0.5, 0), name="upper"
    )
    model.contacts(friction=0.3)
    model.add_contact(lower, upper, friction=0.6)
    if not fixed:
        for k in range(9):
            model.add_body(mass=1.0, shape=ph.shapes.Box((0.2,) * 3), position=(9 + k, 9, 0.1), name=f"far-{k}")
    return model.problem(t1=0.2, h=0.005)


@pytest.mark.exhaustive
def test_forces_of_a_small_heap_are_those_of_fixed_slots():
    problems = slide(fixed=False), slide(fixed=True)
    assert [isinstance(problem.system.contact_set, ListedContacts) for problem in problems] == [True, False]
    lists, slots = map(ph.simulate, problems)
    direction = np.array([1, 0.5, 0]) / np.hypot(1, 0.5)
    expected = {
        ("ground", "lower"): np.array([0, 0, 4 * G]) - 0.3 * 4 * G * direction,
        ("lower", "upper"): np.array([0, 0, G]) - 0.3 * G * direction,
    }
    for pair, force in expected.items():
        one, other = lists.contacts[pair], slots.contacts[pair]
        np.testing.assert_allclose(one.force[1:], other.force[1:], atol=1e-8 * 4 * G)
        np.testing.assert_allclose(one.force[1:], np.broadcast_to(force, one.force[1:].shape), atol=1e-8 * 4 * G)
        arm = lists.bodies["lower"].position[1:], slots.bodies["lower"].position[1:]
        np.testing.assert_allclose(*arm, atol=1e-9)
    # Momentum changes by the impulses of the floor; forces of the upper crate instead don't balance it.
    momentum = 3 * lists.bodies["lower"].velocity + lists.bodies["upper"].velocity
    gained = np.diff(momentum, axis=0) - 0.005 * np.array([0, 0, -4 * G])
    balance = lambda pair: np.max(np.abs(gained - 0.005 * lists.contacts[pair].force[1:]))  # noqa: E731
    assert balance(("ground", "lower")) < 1e-10
    assert balance(("lower", "upper")) > 1e-2


def test_a_tolerance_of_heaps_is_refused_where_there_is_none():
    with pytest.raises(ValueError, match=r"`heap_tolerance`, here .* is for many free bodies"):
        ph.simulate(slide(fixed=True), ph.integrators.get("moreau", heap_tolerance=1e-3))


@pytest.mark.exhaustive
def test_a_hundred_boxes_come_to_rest():
    count, side, spacing = 100, 4, 0.36
    half = 0.5 * spacing * side + 0.05
    model, rng = ph.Model(gravity=(0, 0, -G), units="SI"), np.random.default_rng(0)
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    for axis, sign in ((0, 1), (0, -1), (1, 1), (1, -1)):
        normal = -sign * np.eye(3)[axis]
        turn = ph.rotation_vector(np.cross((0, 0, 1), normal) * np.pi / 2)
        model.ground.add_shape(ph.shapes.Plane(position=-half * normal, rotation=turn, name=f"wall-{axis}-{sign}"))
    for k in range(count):
        level, place = divmod(k, side * side)
        x, y = spacing * (np.array(divmod(place, side)) - 0.5 * (side - 1)) + rng.uniform(-0.005, 0.005, 2)
        turn = rng.normal(size=4)
        model.add_body(
            mass=1.0, shape=ph.shapes.Box((0.2,) * 3), position=(x, y, 0.25 + spacing * level),
            rotation=turn / np.linalg.norm(turn), name=f"box-{k}",
        )  # fmt: skip
    model.contacts(friction=0.5)
    run = ph.simulate(model.problem(t1=3.0, h=0.005))
    kinetic, potential = (np.asarray(run.outputs[f"{name}_energy"]) for name in ("kinetic", "potential"))
    assert kinetic.max() > 200
    assert kinetic[-1] < 1e-3
    # A body that leaves another one and falls back within a step gains as much.
    assert np.max(np.diff(kinetic + potential)) < count * (G * 0.005) ** 2 / 8
    states = [run.bodies[f"box-{k}"] for k in range(count)]
    x, R = (np.stack([getattr(body, name)[-1] for body in states]) for name in ("position", "rotation"))
    assert overlap(x, R, 0.1) < 5e-3
    # What floor and walls don't carry of the weight, the heap gains in momentum, also in steps that are coarse.
    surfaces = ("floor", *(f"wall-{axis}-{sign}" for axis in (0, 1) for sign in (1, -1)))
    carried = -sum(run.contacts[name].force[1:] for name in surfaces)
    momentum = sum(np.asarray(body.velocity) for body in states)
    excess = np.diff(momentum, axis=0) / 0.005 + (0, 0, count * G) - carried
    assert np.abs(excess).max() < 1e-8 * count * G
    assert 0.5 < -run.contacts["floor"].force[-1, 2] / (count * G) < 1.01
    audit = run.audit()
    assert audit["unsolved_steps"].max_drift == 0
    assert audit["coarse_steps"].max_drift > 0


def ball_on_dome(h: float, others: int) -> tuple[float, float]:
    """The angle of a ball that has rolled down a fixed sphere for 0.4 s from rest, and its distance from the sphere."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Sphere(1.0, name="dome"))
    model.add_body(
        mass=1.0, shape=ph.shapes.Sphere(0.1), position=(1.1 * np.sin(0.5), 0, 1.1 * np.cos(0.5)), name="ball"
    )
    for k in range(others):
        model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(9 + 0.5 * k, 9, 0), name=f"far-{k}")
    model.contacts(friction=0.8)
    problem = model.problem(t1=0.4, h=h)
    assert isinstance(problem.system.contact_set, ListedContacts) == (others > 0)
    x = ph.simulate(problem).bodies["ball"].position[-1]
    return float(np.arctan2(x[0], x[2])), float(np.linalg.norm(x))


@pytest.mark.exhaustive
def test_balls_that_roll_down_a_dome_have_order_two():
    from scipy.integrate import solve_ivp

    # A ball that rolls has 7/5 of its mass.
    fall = lambda t, y: (y[1], 5 / 7 * G * np.sin(y[0]) / 1.1)  # noqa: E731
    exact = solve_ivp(fall, (0, 0.4), (0.5, 0.0), rtol=1e-11, atol=1e-12).y[0, -1]
    errors = [abs(ball_on_dome(h, 20)[0] - exact) for h in (0.01, 0.005)]
    assert errors[1] < 1e-4
    assert 3.3 < errors[0] / errors[1] < 4.7
    assert np.isclose(ball_on_dome(0.005, 0)[0], ball_on_dome(0.005, 20)[0], atol=1e-5)


def axis_of_disc(h: float, others: int) -> np.ndarray:
    """The axis of a tilted disc that rolls along a curve, after 0.3 s; with others far away, or without."""
    model = ph.Model(gravity=(0, 0, -G), units="SI")
    model.ground.add_shape(ph.shapes.Plane(name="floor"))
    model.add_body(
        mass=1.0, inertia=(0.0025, 0.0025, 0.005), shape=ph.shapes.Disc(0.1), position=(0, 0, 0.1 * np.cos(0.5)),
        rotation=ph.rotation_vector((np.pi / 2 - 0.5, 0, 0)), velocity=(0.6, 0, 0), angular_velocity=(0, 6.0, 0),
        name="disc",
    )  # fmt: skip
    for k in range(others):
        model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(9 + 0.5 * k, 9, 0.1), name=f"far-{k}")
    model.contacts(friction=0.8)
    return ph.simulate(model.problem(t1=0.3, h=h)).bodies["disc"].rotation[-1, :, 2]


@pytest.mark.exhaustive
def test_friction_of_what_rolls_holds_at_the_end_of_a_step():
    # With slips of the middle the axis is wrong by 8.9e-3.
    np.testing.assert_allclose(axis_of_disc(0.002, 20), axis_of_disc(0.001, 0), atol=4.5e-3)
