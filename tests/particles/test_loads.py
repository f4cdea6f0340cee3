"""Forces and moments are the gradient of the stated energies; momenta balance where the laws say so."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode import particles as pt
from polhode.spaces import component_arrays, quaternions
from polhode.systems.separable import PoseComponents

_MATERIAL = pt.BondMaterial(bending=0.7, axial=3.0, shear=2.0)
_WALLS = (
    pt.Plane((0.1, 0.0, -0.3), (0.2, -0.1, 1.0)),
    pt.Box((-0.3, -np.inf, -2.0), (2.3, 1.3, np.inf)),
    pt.Cylinder(1.5, (1.0, 0.5, 0.0), (0.1, 0.2, 1.0)),
)


def _cloud(seed=0, shear="objective", walls=(), breakable=False, **options):
    """Twelve particles of different sizes, some bonded and some in contact, turned at random."""
    rng = np.random.default_rng(seed)
    grid = np.stack(np.meshgrid(np.arange(3), np.arange(2), np.arange(2), indexing="ij"), -1).reshape(-1, 3)
    x = grid + 0.15 * rng.standard_normal((12, 3))
    pairs = [(0, 1), (1, 2), (4, 3), (5, 0), (7, 11), (11, 6)]
    material = _MATERIAL
    if breakable:
        material = pt.BondMaterial(0.7, 3.0, 2.0, strength=pt.Strength(tension=1e9))
    system = pt.Particles(
        rng.uniform(0.5, 2, 12),
        rng.uniform(0.5, 2, 12),
        rng.uniform(0.8, 1.3, 12),
        x,
        pairs,
        material,
        shear=shear,
        contact=5.0,
        walls=walls,
        **options,
    )
    q = rng.standard_normal((12, 4))
    state = system.start(
        x + 0.1 * rng.standard_normal((12, 3)),
        rng.standard_normal((12, 3)),
        rng.standard_normal((12, 3)),
        q / np.linalg.norm(q, axis=1, keepdims=True),
    )
    if breakable:
        state = state._replace(whole=state.whole.at[1].set(0.0))
    return system, state


def _loads(system, state):
    places = PoseComponents(component_arrays.columns(state[0]), component_arrays.columns(state[1]))
    found = system.loads(places, tuple(state[4:]), system.surroundings(places, tuple(state[4:]), 0.0))
    return component_arrays.rows(found.force), component_arrays.rows(found.moment)


@pytest.mark.exhaustive
@pytest.mark.sampled(8)
@pytest.mark.parametrize("shear", ["objective", "literal"])
@pytest.mark.parametrize(
    ("seed", "options"),
    [
        (0, {}),
        (1, {"bonded_contacts": True}),
        (2, {"breakable": True}),
        (3, {"walls": _WALLS, "gravity": (0.3, -0.2, -9.81)}),
    ],
)
def test_forces_and_moments_are_minus_the_gradient_of_the_energy(shear, seed, options):
    system, state = _cloud(seed, shear, **options)
    energy = jax.jit(lambda x, q: system.potential_energy(state._replace(x=x, q=q)))

    def turned(theta):
        return jax.vmap(lambda a, b: quaternions.multiply(quaternions.from_vector(a), b))(theta, state.q)

    force, moment = _loads(system, state)
    h = 1e-6
    for body in range(12):
        for k in range(3):
            d = jnp.zeros((12, 3)).at[body, k].set(h)
            of_x = (energy(state.x + d, state.q) - energy(state.x - d, state.q)) / (2 * h)
            of_turn = (energy(state.x, turned(d)) - energy(state.x, turned(-d))) / (2 * h)
            assert float(force[body, k]) == pytest.approx(-float(of_x), abs=1e-7)
            assert float(moment[body, k]) == pytest.approx(-float(of_turn), abs=1e-7)


@pytest.mark.exhaustive
def test_bonds_and_contacts_of_the_cloud_are_under_load():
    """What the gradients were tested on isn't at rest."""
    system, state = _cloud(3, walls=_WALLS, gravity=(0.3, -0.2, -9.81))
    energies = system.energies(state)
    alone = [_cloud(3, walls=(wall,))[0].energies(state)["wall"] for wall in _WALLS]
    assert min(map(float, alone)) > 1e-3
    assert all(float(energies[name]) != 0 for name in ("bending", "axial", "shear", "contact", "wall", "gravity"))


@pytest.mark.exhaustive
@pytest.mark.parametrize(("shear", "kept"), [("objective", True), ("literal", False)])
def test_what_the_laws_of_shear_keep(shear, kept):
    system, state = _cloud(4, shear)
    force, moment = _loads(system, state)
    total = np.sum(np.cross(state.x, force) + moment, axis=0)
    assert np.max(np.abs(np.sum(force, axis=0))) < 1e-13
    assert (np.max(np.abs(total)) < 1e-13) == kept
    assert (np.max(np.abs(np.sum(moment, axis=0))) < 1e-13) == (not kept)


@pytest.mark.exhaustive
def test_a_rigid_rotation_costs_energy_with_the_literal_law_only():
    turn = quaternions.from_vector(jnp.array([0.3, -1.1, 0.4]))
    change = {}
    for shear in ("objective", "literal"):
        system, state = _cloud(5, shear)
        whole = state._replace(
            x=jax.vmap(lambda a: quaternions.rotate(turn, a))(state.x),
            q=jax.vmap(lambda a: quaternions.multiply(turn, a))(state.q),
        )
        change[shear] = abs(float(system.potential_energy(whole) - system.potential_energy(state)))
    assert change["objective"] < 1e-13
    assert change["literal"] > 1e-2


@pytest.mark.sampled(3)
@pytest.mark.parametrize("angle", [1e-12, 1e-8, 1e-4, 0.3, 1.5, np.pi / 2, 2.2, 3.0, np.pi - 1e-6])
def test_relative_rotations_at_all_angles(angle):
    rng = np.random.default_rng(int(1e3 * angle))
    axis = rng.standard_normal(3)
    theta = jnp.asarray(angle * axis / np.linalg.norm(axis))
    q = quaternions.from_vector(jnp.asarray(rng.standard_normal(3)))
    p = quaternions.multiply(quaternions.from_vector(theta), q)
    for sign in (1.0, -1.0):
        found = jnp.stack(component_arrays.relative_rotation(tuple(sign * p), tuple(q)))
        # Near half a turn the angle is known to the square root of round-off no better than its cosine.
        np.testing.assert_allclose(found, theta, rtol=0, atol=4e-16 + 8e-16 * angle)


@pytest.mark.exhaustive
def test_order_of_bonds_and_their_ends_does_not_matter():
    for shear in ("objective", "literal"):
        system, state = _cloud(6, shear)
        shuffled = pt.Particles(
            system.masses,
            system.inertias,
            system.diameters,
            _cloud(6, shear)[1].x,
            np.asarray(system.pairs)[::-1],
            _MATERIAL,
            shear=shear,
            contact=5.0,
        )
        same = pt.Particles(
            system.masses,
            system.inertias,
            system.diameters,
            state.x,
            np.asarray(system.pairs),
            _MATERIAL,
            shear=shear,
            contact=5.0,
        )
        for a, b in zip(_loads(shuffled, state), _loads(same, state), strict=True):
            np.testing.assert_allclose(a, b, rtol=0, atol=1e-14)
