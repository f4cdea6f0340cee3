"""Loads along rods: weight, functions of place and time, contact with a plane."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jaxtyping import Array

import polhode as ph
from polhode.multibody.mechanism.poses import Pose

SECTION = ph.rods.Section(
    stiffness=(2.0, 2.0, 2.0, 50.0, 50.0, 60.0), mass=0.7, inertia=(0.01, 0.01, 0.02), radius=0.05
)
NO_FRAME: Any = "node"
POINTS = np.array([[0.0, 0, 0], [0.5, 0.1, 0], [1.1, 0.1, 0.2], [1.3, 0.3, 0.4]])


def with_rod(gravity: Any = (0, 0, 0), **options: Any) -> tuple[ph.Model, Any]:
    model = ph.Model(gravity=gravity)
    return model, model.add_rod(points=POINTS, section=SECTION, **options)


class Wave(eqx.Module):
    """A load along z with a number that JAX sees."""

    size: Array | float

    def __call__(self, s: Array, t: Array) -> Array:
        return self.size * jnp.sin(s - t) * jnp.array([0.0, 0.0, 1.0])


@pytest.mark.exhaustive
def test_weight_as_a_load_is_gravity_and_keeps_the_energy() -> None:
    down = np.array([0.3, 0.0, -9.81])
    heavy, _ = with_rod(down, clamped="first")
    loaded, rod = with_rod(clamped="first")
    assert loaded.add(ph.rods.DistributedLoad(rod, 0.7 * down)) is not None
    (a, state), (b, _) = heavy.assemble(), loaded.assemble()
    assert b.conservative
    np.testing.assert_allclose(b.force(jnp.zeros(()), *state), a.force(jnp.zeros(()), *state), rtol=1e-12, atol=1e-12)


@pytest.mark.exhaustive
def test_functions_of_place_and_time_are_one_group_and_have_derivatives() -> None:
    def sums(size: Any, t: float) -> Any:
        model, rod = with_rod()
        model.add(ph.rods.DistributedLoad(rod, force=Wave(size), moment=lambda s, t: s * jnp.ones(3), name="wind"))
        system, (q, _) = model.assemble()
        pushes = [group for group in system.mechanism.forces if group.elements.uses_poses and len(group.slots) == 1]
        assert [group.slots[0].members.numbers.shape for group in pushes] == [(4,), (4,)]
        found = [group.wrenches(jnp.asarray(t), system.motion(q))[0] for group in pushes]
        return sum(jnp.sum(load.force, axis=0)[2] for load in found), rod, found

    total, rod, found = sums(2.0, 0.3)
    s = np.concatenate(([0.0], np.cumsum(rod.lengths)))
    weights = 0.5 * (np.append(0, rod.lengths) + np.append(rod.lengths, 0))
    np.testing.assert_allclose(total, 2 * weights @ np.sin(s - 0.3), rtol=1e-12)
    moments = sum(np.einsum("nij,nj->ni", rod.places.R, load.torque) for load in found)
    np.testing.assert_allclose(moments, (weights * s)[:, None] * np.ones(3), rtol=1e-10, atol=1e-12)
    slope = jax.grad(lambda size: sums(size, 0.3)[0])(2.0)
    np.testing.assert_allclose(slope, 0.5 * total, rtol=1e-12)


def test_loads_in_body_axes_turn_with_the_nodes() -> None:
    model, rod = with_rod(clamped="first")
    model.add(ph.rods.DistributedLoad(rod, force=(0, 0, 3.0), moment=(0, 1.0, 0), frame="body", name="pull"))
    names = [name for name, _ in model.parts if name.startswith("pull")]
    assert names == [f"pull-{kind}-{i}" for kind in ("force", "moment") for i in range(3)]
    forces: list[Any] = [part for name, part in model.parts if name.startswith("pull-force")]
    poses = [(Pose(part.bodies[0].x, part.bodies[0].R),) for part in forces]
    pushes = [part.place(p).wrenches(jnp.zeros(()), p, ())[0].force for part, p in zip(forces, poses, strict=True)]
    weights = np.asarray(rod.node_lengths)[1:]
    np.testing.assert_allclose(pushes, 3 * weights[:, None] * np.asarray(rod.places.R)[1:, :, 2], rtol=1e-12)


@pytest.mark.exhaustive
def test_contact_has_the_stiffness_of_the_length_and_the_radius_of_the_section() -> None:
    model, rod = with_rod(clamped="last")
    model.add(ph.rods.RodContact(rod, (0, 0, -0.04), (0, 0, 1), 100.0, name="floor"))
    system, (q, _) = model.assemble()
    depths = np.maximum(0.05 - (POINTS[:3, 2] + 0.04), 0)
    energy = 50 * np.asarray(rod.node_lengths)[:3] @ depths**2
    np.testing.assert_allclose(system.potential_energy(jnp.zeros(()), q) - bent(), energy, rtol=1e-10)
    wide = ph.rods.RodContact(rod, (0, 0, 0), (0, 0, 1), 100.0, radius=0.2)
    parts: Any = wide.parts()
    assert [float(part.radius) for part in parts] == [0.2] * 3


def bent() -> float:
    system, (q, _) = with_rod(clamped="last")[0].assemble()
    return float(system.potential_energy(jnp.zeros(()), q))


@pytest.mark.exhaustive
def test_a_heavy_rod_lies_down_on_a_plane() -> None:
    section = ph.rods.Section(stiffness=(1e-3, 1e-3, 1e-3, 1e2, 1e2, 1e2), mass=1.0, inertia=np.full(3, 1e-3))
    model = ph.Model(gravity=(0, 0, -9.81))
    points = np.linspace((0, 0, 0.015), (1, 0, 0.015), 13)
    rod = model.add_rod(points=points, section=section, clamped="first", constrained="both")
    model.add(ph.rods.RodContact(rod, (0, 0, 0), (0, 0, 1), 981.0, radius=0.02))
    system, state = model.assemble()
    found = ph.equilibrium(system, state, steps=4)
    heights = np.asarray(rod.points(system)(found.t, found.state))[:, 2]
    # Clamped at half the depth where the plane carries its weight; away from the clamp it sinks in by all of that.
    assert heights[0] == 0.015
    np.testing.assert_allclose(heights[-4:], 0.02 - 0.01, atol=1e-4)


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda rod: ph.rods.DistributedLoad(rod), "needs `force`, `moment` or both"),
        (lambda rod: ph.rods.DistributedLoad(rod.first, (0, 0, 1)), "must be a rod"),
        (lambda rod: ph.rods.DistributedLoad(rod, (0, 1)), r"`force` must be an array of shape \(3,\)"),
        (lambda rod: ph.rods.DistributedLoad(rod, lambda s, t: s), r"`force` of DistributedLoad must return an array"),
        (lambda rod: ph.rods.DistributedLoad(rod, lambda t: t), "can't be evaluated"),
        (lambda rod: ph.rods.DistributedLoad(rod, (0, 0, 1), frame=NO_FRAME), "`frame` must be one of"),
        (lambda rod: ph.rods.RodContact(rod, (0, 0, 0), (0, 0, 0), 1.0), "zero vector"),
        (lambda rod: ph.rods.RodContact(rod, (0, 0, 0), (0, 0, 1), 0.0), "`stiffness` must be greater than zero"),
        (lambda rod: ph.rods.RodContact(rod, (0, 0, 0), (0, 0, 1), 1.0, radius=-1.0), "`radius` must be at least 0"),
    ],
)
def test_bad_loads_are_named(make: Any, message: str) -> None:
    _, rod = with_rod()
    with pytest.raises(ValueError, match=message):
        make(rod)


@pytest.mark.exhaustive
def test_a_material_has_derivatives_in_models_that_touch_a_plane() -> None:
    """A stretched edge pulls its end with EA ε, which has the mass ρAl/2: the acceleration is 2 E ε/(ρ l)."""
    density, strain, ends = 1e3, 0.01, np.array([[0.0, 0, 0], [1.01, 0, 0]])

    def pulled(modulus: Any) -> Any:
        model = ph.Model()
        section = ph.rods.circular(0.02, youngs_modulus=modulus, density=density)
        rod = model.add_rod(points=ends, section=section, lengths=np.ones(1))
        model.add(ph.rods.RodContact(rod, (0, 0, 0), (0, 0, 1), stiffness=10.0))
        problem = model.problem("SO3xR3", t1=0.1, h=0.01)
        velocity: Any = problem.system.velocity(jnp.zeros(()), problem.state0)
        return jnp.min(velocity)

    np.testing.assert_allclose(jax.grad(pulled)(1e5), -2 * strain / density, rtol=1e-9)
