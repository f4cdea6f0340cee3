"""Particles as bodies of a model: loads as by themselves, bonds to other bodies, explicit variational steps."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode import particles as pt
from polhode.spaces import component_arrays, quaternions
from polhode.systems.separable import PoseComponents

_N = 8
_WALLS = (pt.Plane((0.1, 0.0, -0.3), (0.2, -0.1, 1.0)), pt.Box((-0.3, -0.4, -0.5), (1.2, 1.3, 1.5)))
_MATERIALS = (
    pt.BondMaterial(0.7, 3.0, 2.0, axial_damping=0.3, bending_damping=0.2),
    pt.BondMaterial(0.4, 5.0, 1.0, axial_damping=0.1),
)


def _both(damping, seed=0, **options):
    """The same particles by themselves and in a model, and a state of them far from the start."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(2), np.arange(2), np.arange(2), indexing="ij"), -1).reshape(-1, 3)
    x = grid + 0.1 * rng.standard_normal((_N, 3))
    kept = {name: rng.uniform(0.5, 2, _N) for name in ("masses", "inertias")}
    kept["diameters"] = rng.uniform(0.8, 1.3, _N)
    materials = _MATERIALS if damping else tuple(pt.BondMaterial(k.bending, k.axial, k.shear) for k in _MATERIALS)
    kept |= {"pairs": [(0, 1), (1, 2), (4, 3), (5, 0)], "material": materials, "kinds": [0, 1, 0, 1], "contact": 5.0}
    kept |= {"walls": _WALLS, "wall_contact": 3.0, "contact_damping": 0.4 * damping, **options}
    alone = pt.Particles(positions=x, gravity=(0.3, -0.2, -9.81), **kept)
    model = ph.Model(gravity=(0.3, -0.2, -9.81))
    model.add_particles(x, **kept)
    q = rng.standard_normal((_N, 4))
    moved, v, omega = (rng.standard_normal((_N, 3)) for _ in range(3))
    state = alone.start(x + 0.1 * moved, v, omega, q / np.linalg.norm(q, axis=1, keepdims=True))
    return alone, model, state


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize(("damping", "bonded"), [(0.0, False), (1.0, True)])
def test_loads_are_those_of_particles_by_themselves(damping, bonded):
    alone, model, state = _both(damping, bonded_contacts=bonded)
    system, _ = model.assemble("S3xR3")
    body = jax.vmap(lambda q, w: quaternions.rotate(quaternions.conjugate(q), w))
    q = ((state.q, state.x),)
    found = system.accelerations(jnp.zeros(()), q, jnp.concatenate((body(state.q, state.omega), state.v), 1).ravel())

    places = PoseComponents(component_arrays.columns(state.x), component_arrays.columns(state.q))
    around = alone.surroundings(places, (), 0.0)
    loads = alone.loads(places, (), around)
    if damping:
        drag = alone.drag(places, component_arrays.columns(state.v), component_arrays.columns(state.omega), (), around)
        loads = jax.tree.map(jnp.add, loads, drag)
    a = component_arrays.rows(loads.force) / alone.masses[:, None]
    alpha = body(state.q, component_arrays.rows(loads.moment) / alone.inertias[:, None])
    np.testing.assert_allclose(found[0].reshape(_N, 6), jnp.concatenate((alpha, a), 1), rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(system.potential_energy(jnp.zeros(()), q), alone.potential_energy(state), rtol=1e-12)


def _tool(gravity=(0.0, 0.0, 0.0), axial=30.0):
    """A tumbling body that is no sphere, with a chain of particles bonded to a point of it."""
    model = ph.Model(gravity=gravity)
    layout = pt.chain(3, 0.5, start=(1.0, 0.0, 0.0))
    tool = model.add_body(
        mass=3.0,
        inertia=((0.3, 0.02, 0.01), (0.02, 0.5, 0.03), (0.01, 0.03, 0.6)),
        position=(0.2, 0.0, 0.1),
        rotation=ph.rotation_vector((0.3, -0.5, 0.2)),
        velocity=(0.3, -0.2, 0.1),
        angular_velocity=(1.0, 2.0, -0.5),
        name="tool",
    )
    k = pt.BondMaterial(2.0, axial, 30.0)
    sand = model.add_particles(
        layout.positions, masses=0.2, inertias=0.01, diameters=0.5, pairs=layout.pairs, material=k, contact=40.0
    )
    model.add(pt.Bond(tool, sand.bodies[0], k, first_point=(0.7, 0.0, 0.0)))
    return model


@pytest.mark.exhaustive
def test_a_body_and_its_particles_take_explicit_variational_steps_at_second_order():
    model = _tool()
    reference = ph.simulate(model.problem("SE3", t1=1.0), "rkmk6", h=1e-3, save_every=None)
    problem = model.problem("separable", t1=1.0)
    assert problem.integrator == "rigid-verlet"
    ends = []
    for h in (4e-3, 2e-3):
        run = ph.simulate(problem, h=h, save_every=5)
        for name in ("linear_momentum", "angular_momentum"):
            momentum = run.invariants[name]
            assert np.max(np.abs(momentum - momentum[0])) < 1e-13 * np.max(np.abs(momentum[0]))
        assert {row.quantity: row.verdict for row in run.audit()}["energy"] == "kept"
        ends.append([run.outputs[name][-1] for name in ("positions", "rotations", "velocities", "angular_velocities")])
    exact = [reference.outputs[n][-1] for n in ("positions", "rotations", "velocities", "angular_velocities")]
    for coarse, fine, true in zip(*ends, exact, strict=True):
        assert 1.8 < np.log2(np.max(np.abs(coarse - true)) / np.max(np.abs(fine - true))) < 2.2


@pytest.mark.exhaustive
def test_gravity_takes_the_promise_of_momenta_away():
    system, state = _tool(gravity=(0.0, 0.0, -9.81)).assemble("separable")
    assert system.kept_momenta == ()
    assert set(system.invariants()) == {"energy"}
    assert not system.spherical
    np.testing.assert_allclose(
        system.coordinates(state)[0][0][1], system.base.motion(system.coordinates(state)[0]).poses.x[:-1]
    )


@pytest.mark.exhaustive
def test_spheres_alone_take_rodrigues_and_move_as_particles_do():
    alone, model, _ = _both(0.0, walls=())
    problem = model.problem("separable", t1=0.1, h=1e-3)
    assert problem.integrator == "rodrigues"
    state = problem.state0
    mine = ph.simulate(problem)
    other = ph.simulate(alone, "rodrigues", h=1e-3, t1=0.1, state0=alone.start(state.x))
    np.testing.assert_allclose(mine.state.x[-1], other.state.x[-1], rtol=0, atol=1e-12)
    np.testing.assert_allclose(mine.state.q[-1], other.state.q[-1], rtol=0, atol=1e-12)


@pytest.mark.exhaustive
def test_energy_is_kept_on_livens_principle():
    run = ph.simulate(_tool().problem("livens", t1=0.2, h=1e-2))
    for name, least in (("energy", 1e-10), ("linear_momentum", 1e-12), ("angular_momentum", 1e-12)):
        values = run.invariants[name]
        assert np.max(np.abs(values - values[0])) < least


@pytest.mark.exhaustive
def test_derivatives_by_a_stiffness_match_differences():
    def end(axial):
        system, state = _tool(axial=axial).assemble("separable")
        run = ph.simulate(system, "rigid-verlet", h=5e-3, t1=0.1, state0=state, save_every=None)
        return run.state.x[-1, 2, 0]

    slope = jax.jacfwd(end)(30.0)
    assert abs(slope - (end(30.01) - end(29.99)) / 0.02) < 1e-6 * abs(slope)


@pytest.mark.exhaustive
def test_steps_above_the_limit_are_said_and_particles_are_drawn_as_balls():
    model = _tool()
    for formulation, method in (("separable", "rigid-verlet"), ("SE3", "rkmk4")):
        with pytest.warns(ph.StepSizeWarning, match="particles-1"):
            ph.simulate(model.problem(formulation, t1=0.5, h=0.5), method, throw=False)
    shapes = [part["shape"] for part in model.problem("SE3", t1=1.0).scene.description["bodies"]]
    assert shapes == ["box", "ellipsoid", "ellipsoid", "ellipsoid"]


def _refused(change):
    model = ph.Model()
    top = model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.5))
    point = model.add_point(mass=1.0, position=(3.0, 0.0, 0.0))
    x = np.array([[1.0, 0, 0], [2.0, 0, 0]])
    good = dict(positions=x, masses=1.0, inertias=1.0, diameters=1.0, pairs=[(0, 1)], material=_MATERIALS[1])
    return change(model, top, point, good)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda m, top, point, p: m.add_particles(**p | {"masses": -1.0}), "masses"),
        (lambda m, top, point, p: m.add_particles(**p | {"positions": np.zeros(3)}), r"shape \(n, 3\)"),
        (lambda m, top, point, p: m.add_particles(**p | {"pairs": [(0, 2)]}), "from 0 to 1"),
        (lambda m, top, point, p: m.add_particles(**p | {"walls": (3,)}), "walls"),
        (lambda m, top, point, p: m.add_particles(**p | {"walls": (pt.Plane(),)}), "`wall_contact`"),
        (lambda m, top, point, p: m.add_particles(**p | {"velocities": np.zeros((3, 3))}), "velocities"),
        (
            lambda m, top, point, p: m.add_particles(
                **p | {"material": pt.BondMaterial(1, 1, 1, strength=pt.Strength(1.0))}
            ),
            "can't break",
        ),
        (
            lambda m, top, point, p: m.add_particles(
                np.random.default_rng(0).random((300, 3)), masses=1.0, inertias=1.0, diameters=0.1, contact=1.0
            ),
            "44,850 pairs",
        ),
        (lambda m, top, point, p: m.add(pt.Bond(top, point, _MATERIALS[1])), "needs the rotation"),
        (lambda m, top, point, p: m.add(pt.Bond(top, m.ground, _MATERIALS[1])), "at the same place"),
        (lambda m, top, point, p: m.add(pt.Bond(top, m.ground, 3.0, (1, 0, 0))), "BondMaterial"),
        (lambda m, top, point, p: m.assemble("separable"), "`point-1`"),
    ],
)
def test_bad_input_is_named(change, message):
    with pytest.raises(ValueError, match=message):
        _refused(change)


def test_what_explicit_variational_steps_cannot_take_is_named():
    model = _tool()
    model.add(ph.joints.Spherical(model.ground, model.body("tool"), point=(0, 0, 0), name="pin"))
    with pytest.raises(ValueError, match="`pin`"):
        model.assemble("separable")
    with pytest.raises(ValueError, match="DampedBond on `particles-1-0`"):
        _both(1.0)[1].assemble("separable")


def test_a_refused_call_leaves_the_model_as_it_was():
    model = _tool()
    before = len(model.bodies), len(model.parts)
    with pytest.raises(ValueError, match="can't break"):
        model.add_particles(
            np.eye(3),
            masses=1.0,
            inertias=1.0,
            diameters=0.5,
            pairs=[(0, 1)],
            material=dataclasses.replace(_MATERIALS[1], strength=pt.Strength(1.0)),
        )
    assert (len(model.bodies), len(model.parts)) == before


def test_particles_that_overlap_at_the_start_are_refused():
    with pytest.raises(ValueError, match="Particles 0 and 1 overlap by 99%"):
        ph.Model().add_particles([[0, 0, 0], [0.01, 0, 0]], masses=1.0, inertias=0.1, diameters=1.0, contact=1e3)
