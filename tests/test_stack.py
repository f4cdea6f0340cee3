"""One test of each kind, for stacks besides the one that all other tests run on: `make newest`, `make lowest`.

What is right is tested elsewhere; here methods agree with one another, and ways to compute with one another.
"""

from __future__ import annotations

import functools
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.integrators import registry, suited
from polhode.viewing.page import page

EXAMPLES = Path(__file__).parents[1] / "examples"
T1, H = 0.02, 5e-4


def pendulum():
    model = ph.Model(gravity=(0, 0, -9.81))
    bob = model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.3), position=(0.5, 0, 0), name="bob")
    model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    return model.problem("minimal", t1=T1)


def billiard_ball():
    """A ball that slides along a curve, so that friction turns with every step."""
    model = ph.Model(gravity=(0, 0, -9.81))
    model.ground.add_shape(ph.shapes.Plane())
    motion = dict(velocity=(2.0, 0, 0), angular_velocity=(20.0, 0, 0))
    model.add_body(mass=1.0, shape=ph.shapes.Sphere(0.1), position=(0, 0, 0.1), name="ball", **motion)
    model.contacts(friction=0.3)
    return model.problem(t1=T1)


@functools.cache
def problems():
    """Together they suit every method."""
    names = ("free-rigid-body", "heavy-top-constrained", "pendulum-3d", "steady-precession", "rotor")
    return [*map(ph.problems.get, names), pendulum(), billiard_ball()]


@functools.cache
def methods(k):
    return frozenset(row.name for row in suited(problems()[k]) if row.suited)


def end(problem, method, h):
    run = ph.simulate(problem, method, h=h, t1=T1, save_every=None)
    assert run.stats["result"] == 0
    return [np.asarray(x) for x in jax.tree.leaves(run.state)]


@pytest.mark.sampled(3)
@pytest.mark.parametrize("method", registry.names())
def test_each_method_comes_closer_with_half_the_step(method):
    problem = next((problem for k, problem in enumerate(problems()) if method in methods(k)), None)
    assert problem is not None, f"none of the problems here suits {method}"
    coarse, fine, finer = (end(problem, method, h) for h in (H, H / 2, H / 4))
    first = max(np.max(np.abs(a - b), initial=0) for a, b in zip(coarse, fine, strict=True))
    second = max(np.max(np.abs(a - b), initial=0) for a, b in zip(fine, finer, strict=True))
    assert second < max(0.7 * first, 1e-9)


@pytest.mark.parametrize("file", sorted(EXAMPLES.glob("*.urdf")) + sorted(EXAMPLES.glob("*.xml")), ids=lambda p: p.name)
def test_files_are_imported_run_and_written(file, tmp_path):
    model = ph.load_model(file)
    run = ph.simulate(model.problem(t1=0.02), h=1e-3)
    assert run.stats["result"] == 0
    for store in ("run.zarr", "run.h5"):
        run.save(tmp_path / store)
        again = ph.load(tmp_path / store)
        for a, b in zip(jax.tree.leaves(run.state), jax.tree.leaves(again.state), strict=True):
            np.testing.assert_array_equal(a, b)
    assert len(page.page(again)) > 10_000


def swing(mass, t1=0.02):
    model = ph.Model(gravity=(0, 0, -9.81))
    arm = model.add_body(mass=ph.Parameter("mass", 2.0), inertia=(0.01, 0.2, 0.2), position=(0.5, 0, 0), name="arm")
    hinge = ph.joints.Revolute(model.ground, arm, point=(0, 0, 0), axis=(0, 1, 0), name="hinge")
    model.add(hinge)
    model.add(ph.forces.JointSpring(hinge, stiffness=30.0, damping=0.1))
    table = ph.PiecewiseLinear(np.linspace(0, 1, 11), np.linspace(0, 3, 11))
    model.add(ph.forces.JointControl([hinge], lambda t, s, v: table(t) + jnp.interp(t, *_TABLE) - 0.1 * v))
    return model.problem("SE3", t1=t1).replace(mass=mass)


_TABLE = np.linspace(0, 1, 5), np.linspace(0, 1, 5) ** 2


def test_derivatives_by_every_transformation_agree():
    problem = swing(2.0)

    def reached(mass):
        run = ph.simulate(problem.replace(mass=mass), "generalized-alpha", h=1e-3, save_every=None)
        return run.bodies["arm"].position[-1, 2]

    back, along = jax.grad(reached)(2.0), jax.jvp(reached, (2.0,), (1.0,))[1]
    differences = (reached(2.0 + 1e-3) - reached(2.0 - 1e-3)) / 2e-3
    np.testing.assert_allclose([back, along], differences, rtol=1e-6)


def test_ensembles_are_their_members():
    many = ph.ensemble(swing(2.0), parameters={"mass": [1.0, 2.0, 3.0]}, h=1e-3)
    one = ph.simulate(swing(3.0), h=1e-3)
    assert one.outputs
    for name, values in one.outputs.items():
        there = many.dataset[f"outputs.{name}"].values[2, -1]
        np.testing.assert_allclose(there, values[-1], rtol=1e-12, atol=1e-12)


def test_linear_models_modes_and_equilibria_are_there():
    problem = swing(2.0)
    still = ph.equilibrium(problem)
    assert still.residual < 1e-8
    assert np.isfinite(np.asarray(ph.linearise(problem).A)).all()


def test_particles_move_and_rods_bend():
    grains = ph.simulate(ph.problems.get("grain-pile"), t1=2e-3)
    assert grains.stats["result"] == 0
    cable = ph.simulate(ph.problems.get("cantilever"), t1=2e-3)
    assert cable.stats["result"] == 0
