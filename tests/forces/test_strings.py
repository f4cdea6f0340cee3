"""Strings over pulleys and around cylinders beside closed forms, with a length or a tension as an input."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.viewing.scene import model_scene

M1, M2, G, RADIUS = 2.0, 3.0, 9.81, 0.5


def masses(y=0.0):
    """Two bodies that hang at both sides of a cylinder about the y axis, and the points of a string through both."""
    model = ph.Model(gravity=(0, 0, -G))
    first, second = (
        model.add_body(mass=m, inertia=(1, 1, 1), position=(x, y, z), name=name)
        for m, x, z, name in ((M1, -RADIUS, -1.0, "first"), (M2, RADIUS, -1.5, "second"))
    )
    return model, (first, (-RADIUS, y, -1.0)), (second, (RADIUS, y, -1.5))


@pytest.mark.exhaustive
def test_masses_over_a_cylinder_fall_as_in_the_textbook():
    model, first, second = masses()
    drum = ph.joints.Wrap(model.ground, RADIUS, (0, 0, 0), axis=(0, 2, 0), side=(0, 0, 2))
    rope = ph.joints.StringLength([first, drum, second])
    length = 2.5 + np.pi * RADIUS
    assert float(rope.initial()) == pytest.approx(length, abs=1e-14)
    model.add(ph.forces.JointStops(rope, limits=(-np.inf, length), name="rope"))
    run = ph.simulate(model.problem(t1=0.4, h=0.01))
    fall = 0.5 * (M2 - M1) / (M1 + M2) * G * run.t**2
    np.testing.assert_allclose(run.bodies["second"].position[:, 2], -1.5 - fall, atol=1e-12)
    np.testing.assert_allclose(run.bodies["first"].position[:, 2], -1.0 + fall, atol=1e-12)


def test_tension_is_the_same_everywhere_and_divided_at_pulleys():
    model, first, second = masses()
    points = [first, (model.ground, (0, 0, 0)), ph.joints.Pulley(3.0), (model.ground, (0, 0, 1)), second]
    model.add(ph.forces.Tendon(points, force=lambda t, length, rate: 4 + t + 0 * rate, name="rope"))
    system, state = model.assemble("SE3")
    accelerations = np.asarray(system.accelerations(0.5, *state)[0]).reshape(2, 6)[:, 3:]
    pulls = []
    for (_, point), other, tension in ((first, (0, 0, 0), 4.5), (second, (0, 0, 1), 1.5)):
        way = np.subtract(other, point)
        pulls.append(tension * way / np.linalg.norm(way))
    wanted = np.add([pulls[0] / M1, pulls[1] / M2], (0, 0, -G))
    np.testing.assert_allclose(accelerations, wanted, atol=1e-13)


@pytest.mark.parametrize(
    ("points", "message"),
    [
        ([("a", 0)], "1"),
        ([("a", 0), ("a", 1)], "points of two bodies"),
        ([("a", 0), ph.joints.Pulley(2), ("g", 1)], "two points at least"),
        (["wrap", ("a", 0), ("g", 1)], "between two points"),
        ([("a", 0), ph.joints.Pulley(-1), ("a", 0), ("g", 1)], "two points at least"),
        ([("a", 0), 3], "pairs"),
    ],
)
def test_points_of_strings_are_checked(points, message):
    model = ph.Model()
    bodies = {"a": model.add_body(mass=1.0, inertia=(1, 1, 1)), "g": model.ground}

    def item(x):
        if x == "wrap":
            return ph.joints.Wrap(model.ground, 1.0, (0, 0, 0))
        return (bodies[x[0]], (x[1], 0, 0)) if isinstance(x, tuple) else x

    with pytest.raises(ValueError, match=message):
        ph.forces.Tendon([item(x) for x in points])


def test_data_of_tendons_are_checked():
    model, first, second = masses()
    for options, message in (
        ({"damping": -1.0}, "damping"),
        ({"force": -2.0}, "strings can't push"),
        ({"force": lambda t: jnp.zeros(2)}, "must return a number"),
        ({"length": "long"}, "length"),
    ):
        with pytest.raises(ValueError, match=message):
            ph.forces.Tendon([first, second], **options)
    with pytest.raises(ValueError, match="within the radius"):
        ph.joints.StringLength([first, ph.joints.Wrap(model.ground, 1.0, (0, 0, 0), side=(0.5, 0, 0)), second])
    with pytest.raises(ValueError, match="holds nothing by itself"):
        model.add(ph.joints.StringLength([first, second]))


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SE3", "S3xR3"])
def test_elastic_strings_swing_as_computed(formulation):
    """Two masses on an elastic string over a cylinder, whose sum of heights is an oscillator."""
    model, first, second = masses()
    drum = ph.joints.Wrap(model.ground, RADIUS, (0, 0, 0), axis=(0, 1, 0), side=(0, 0, 2))
    whole = 2.5 + np.pi * RADIUS
    model.add(ph.forces.Tendon([first, drum, second], stiffness=3000.0, length=whole - 0.012, name="rope"))
    run = ph.simulate(model.problem(formulation, t1=0.4), "rkmk4", h=5e-4)
    assert np.ptp(run.invariants["energy"]) < 1e-7
    mu, rope = 1 / (1 / M1 + 1 / M2), run.forces["rope"]
    omega, rest = np.sqrt(3000.0 / mu), 2 * G * mu / 3000.0
    wanted = rest + (0.012 - rest) * np.cos(omega * run.t)
    np.testing.assert_allclose(rope.elongation, wanted, atol=1e-8)
    np.testing.assert_allclose(rope.length, whole - 0.012 + wanted, atol=1e-8)
    np.testing.assert_allclose(-rope.effort, 3000.0 * wanted, atol=3e-5)


@pytest.mark.exhaustive
def test_energy_momentum_steps_keep_the_energy_of_bodies_on_a_string():
    model = ph.Model(gravity=(0, 0, 0))
    ends = [
        model.add_body(
            mass=m, inertia=(1, 2, 2.5), position=(x, 0, 0), velocity=(0, v, 0.1), angular_velocity=(0, 1, v)
        )
        for m, x, v in ((1.0, -1.0, 1.0), (2.0, 0.0, 0.0), (3.0, 1.2, -0.5))
    ]
    points = [(body, np.add(body.x, (0.1, 0.2, 0))) for body in ends]
    model.add(ph.forces.Tendon([points[0], points[1], points[2]], stiffness=100.0, length=2.0, name="rope"))
    run = ph.simulate(model.problem("SE3", t1=1.0), "eml", h=0.01)
    assert np.ptp(run.invariants["energy"]) < 1e-10
    assert np.min(run.forces["rope"].elongation) < 0 < np.max(run.forces["rope"].elongation)


@pytest.mark.exhaustive
def test_a_winch_lifts_and_does_the_work():
    """A string whose length becomes shorter lifts a mass; the work of its tension is the energy that the mass gains."""
    model = ph.Model(gravity=(0, 0, -G))
    load = model.add_body(mass=M1, inertia=(1, 1, 1), position=(0, 0, -2.0), name="load")
    k, d, start = 2000.0, 80.0, 2.0 - M1 * G / 2000.0
    points = [(load, (0, 0, -2.0)), (model.ground, (0, 0, 0))]
    model.add(ph.forces.Tendon(points, k, d, length=lambda t: start - 0.1 * t**2, onset=1e-4, name="rope"))
    run = ph.simulate(model.problem("SE3", t1=1.0, save_loads=True), "rkmk4", h=1e-3)
    z, rope = run.bodies["load"].position[:, 2], run.forces["rope"]
    # It follows with the constant acceleration of the winch, and stretches by what that takes.
    np.testing.assert_allclose(rope.elongation[-1], M1 * (G + 0.2) / k, atol=1e-6)
    assert z[-1] == pytest.approx(-(start - 0.1 + M1 * (G + 0.2) / k), abs=1e-6)
    gain = 0.5 * M1 * run.bodies["load"].velocity[:, 2] ** 2 + M1 * G * (z + 2)
    work = np.trapezoid(rope.power, run.t)
    assert gain[-1] == pytest.approx(work, rel=1e-5)


@pytest.mark.exhaustive
def test_runs_are_differentiated_with_respect_to_the_stiffness():
    def height(k):
        model, first, second = masses()
        drum = ph.joints.Wrap(model.ground, RADIUS, (0, 0, 0), axis=(0, 1, 0), side=(0, 0, 2))
        model.add(ph.forces.Tendon([first, drum, second], stiffness=k, length=3.9))
        system, state = model.assemble("SE3")
        return ph.simulate(system, "rkmk4", h=1e-2, t1=0.1, state0=state).outputs["positions"][-1, 0, 2]

    slope = jax.grad(height)(300.0)
    assert slope == pytest.approx((height(300.1) - height(299.9)) / 0.2, rel=1e-6)


@pytest.mark.exhaustive
def test_dry_friction_and_feedback_act_along_strings():
    model, first, _ = masses()
    rope = ph.joints.StringLength([first, (model.ground, (-RADIUS, 0, 0))])
    model.add(ph.forces.JointFriction(rope, M1 * G + 1.0))
    model.add(ph.forces.JointControl([rope], lambda t, s, rates: jnp.zeros(1)))
    run = ph.simulate(model.problem(t1=0.2, h=0.01))
    # Friction larger than the weight holds the first body; the second falls.
    np.testing.assert_allclose(run.bodies["first"].position[:, 2], -1.0, atol=1e-12)
    np.testing.assert_allclose(run.bodies["second"].position[-1, 2], -1.5 - 0.5 * G * 0.04, atol=1e-12)


def test_strings_are_drawn_by_branches():
    model, first, second = masses()
    drum = ph.joints.Wrap(model.ground, RADIUS, (0, 0, 0))
    hook = (model.ground, (0, 0, 1))
    model.add(ph.forces.Tendon([first, drum, hook, ph.joints.Pulley(2.0), hook, second], stiffness=1.0))
    lines = [line for line in model_scene.to_dict(model, ["first", "second"])["lines"] if line["name"] == "strings"]
    assert [line["rows"] for line in lines] == [[0, -1], [-1, 1]]
    assert [line["points"] for line in lines] == [[[0, 0, 0], [0, 0, 1]], [[0, 0, 1], [0, 0, 0]]]
