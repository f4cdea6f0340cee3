"""Compliant contacts between shapes: Hertz's impact, restitution, friction, energy, methods, names, bad numbers."""

from __future__ import annotations

import warnings
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.integrate import solve_ivp

import polhode as ph
from polhode.forces import hertz_stiffness, impact_damping

G = 9.81
MASS, RADIUS, SPEED, STIFFNESS = 0.5, 0.1, 2.0, 1e5


def falling_ball(**law: Any) -> Any:
    """A ball that flies towards a plane, weightless."""
    model = ph.Model()
    model.ground.add_shape(ph.shapes.Plane())
    model.add_body(
        shape=ph.shapes.Sphere(RADIUS), mass=MASS, position=(0, 0, 0.12), velocity=(0, 0, -SPEED), name="ball"
    )
    model.contacts(law="compliant", stiffness=STIFFNESS, friction=0, **law)
    return model


def two_balls(stiffness: Any = STIFFNESS) -> Any:
    """Balls that meet off their centres, weightless."""
    model = ph.Model()
    model.add_body(shape=ph.shapes.Sphere(0.1), mass=1.0, position=(0, 0, 0), velocity=(1, 0, 0), name="a")
    model.add_body(shape=ph.shapes.Sphere(0.2), mass=2.0, position=(0.35, 0.1, 0), name="b")
    model.contacts(law="compliant", stiffness=stiffness, friction=0)
    return model


def test_stiffness_of_spheres_is_that_of_hertz() -> None:
    effective = 1 / ((1 - 0.3**2) / 210e9 + (1 - 0.4**2) / 3e9)
    expected = 4 / 3 * effective * np.sqrt(0.02 * 0.03 / 0.05)
    np.testing.assert_allclose(hertz_stiffness((210e9, 3e9), (0.3, 0.4), (0.02, 0.03)), expected, rtol=1e-14)
    plane = 4 / 3 * 210e9 / (2 * (1 - 0.3**2)) * np.sqrt(0.02)
    np.testing.assert_allclose(hertz_stiffness(210e9, 0.3, (0.02, np.inf)), plane, rtol=1e-14)


@pytest.mark.parametrize("restitution", [0.05, 0.3, 0.7, 0.97, 0.99995])
@pytest.mark.parametrize("exponent", [1.0, 1.5])
def test_damping_gives_the_restitution_at_its_speed(restitution: float, exponent: float) -> None:
    c = float(impact_damping(restitution, SPEED))

    def rate(t: float, y: Any) -> Any:
        del t
        return [y[1], -STIFFNESS * max(y[0], 0.0) ** exponent * max(1 + c * y[1], 0.0) / MASS]

    leaves = lambda t, y: y[0]  # noqa: E731
    leaves.terminal, leaves.direction = True, -1
    end = solve_ivp(
        rate, (0, 10), [1e-13, SPEED], method="DOP853", rtol=1e-12, atol=1e-16, events=leaves, max_step=0.01
    )
    assert abs(-end.y[1, -1] / SPEED - restitution) < 1e-8


@pytest.mark.exhaustive
def test_derivative_of_damping_by_restitution() -> None:
    slope = jax.grad(lambda e: impact_damping(e, SPEED))(0.6)
    expected = (impact_damping(0.6 + 1e-5, SPEED) - impact_damping(0.6 - 1e-5, SPEED)) / 2e-5
    np.testing.assert_allclose(slope, expected, rtol=1e-8)


@pytest.mark.exhaustive
def test_elastic_impact_has_the_duration_and_depth_of_hertz() -> None:
    run = ph.simulate(falling_ball().problem(t1=0.04, h=2e-5, integrator="rkmk4"))
    depth = np.asarray(run.forces["ground/ball"].depth)
    inside = np.asarray(run.t)[depth > 0]
    largest = (5 * MASS * SPEED**2 / (4 * STIFFNESS)) ** 0.4
    assert abs(np.max(depth) - largest) < 1e-8
    # 2 ∫ dx/√(1 - x^{5/2}) from 0 to 1.
    assert abs(inside[-1] - inside[0] - 2.943275 * largest / SPEED) < 4e-5
    energy = np.asarray(run.invariants["energy"])
    # First touch and last are within a step.
    assert np.ptp(energy) < STIFFNESS * (SPEED * 2e-5) ** 2.5
    force = np.asarray(run.forces["ground/ball"].force)
    np.testing.assert_allclose(force[:, 2], STIFFNESS * np.maximum(depth, 0) ** 1.5, rtol=1e-12)


@pytest.mark.exhaustive
def test_restitution_of_a_run_and_where_the_energy_goes() -> None:
    model = falling_ball(restitution=0.7, impact_speed=SPEED)
    run = ph.simulate(model.problem(t1=0.045, h=2e-5, integrator="rkmk4"))
    velocity = np.asarray(run.bodies["ball"].velocity)[-1]
    np.testing.assert_allclose(velocity, (0, 0, 0.7 * SPEED), atol=1e-8)
    assert "energy" not in run.invariants
    power = np.asarray(run.forces["ground/ball"].power)
    work = np.sum(0.5 * (power[1:] + power[:-1])) * 2e-5
    assert abs(work + 0.5 * MASS * SPEED**2 * (1 - 0.7**2)) < 1e-6


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("method", "h", "bound"), [("rkmk4", 2e-4, 1e-6), ("eml", 1e-3, 1e-13), ("rattle", 2e-4, 1e-4)]
)
def test_methods_keep_energy_and_momentum_of_elastic_balls(method: str, h: float, bound: float) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        run = ph.simulate(two_balls().problem(t1=0.2, h=h, integrator=method))
    assert np.max(np.asarray(run.forces["a/b"].depth)) > 5e-3
    assert np.ptp(np.asarray(run.invariants["energy"])) < bound
    momentum = np.asarray(run.invariants["linear_momentum"])
    np.testing.assert_allclose(momentum, np.broadcast_to((1, 0, 0), momentum.shape), atol=1e-13)


def swing(formulation: str, method: str, **control: Any) -> float:
    """The rate of a pendulum 0.7 s after the start, after an impact on a wall with damping and friction."""
    model = ph.Model(gravity=(0, 0, -G))
    bob = model.add_body(shape=ph.shapes.Sphere(0.1), mass=1.0, inertia=(0.01,) * 3, position=(1, 0, 0), name="bob")
    model.add(ph.joints.Revolute(model.ground, bob, point=(0, 0, 0), axis=(0, 1, 0)))
    wall = ph.shapes.Plane(position=(-0.1, 0, 0), rotation=ph.rotation_vector((0, np.pi / 2, 0)))
    model.ground.add_shape(wall)
    model.add_contact(
        model.ground, bob, law="compliant", stiffness=1e5, damping=0.2, friction=0.3, slip_speed=0.1, name="wall"
    )
    problem = model.problem(t1=0.7, h=4e-4, integrator=method, formulation=formulation)
    return float(np.asarray(ph.simulate(problem, **control).bodies["bob"].angular_velocity)[-1, 1])


@pytest.fixture(scope="module")
def swing_rate() -> float:
    """The same with one angle and by SciPy."""

    def rate(t: float, y: Any) -> Any:
        del t
        x, z = np.cos(y[0]), -np.sin(y[0])
        # The wall is at -0.1, the radius 0.1: the contact point is midway between both surfaces.
        point = np.array([x - 0.1 - 0.5 * x, 0, z])
        velocity = np.cross((0, y[1], 0), point)
        push = 1e5 * max(-x, 0.0) ** 1.5 * max(1 - 0.2 * velocity[0], 0.0)
        slip = velocity * (0, 1, 1)
        force = push * (np.array([1, 0, 0]) - 0.3 * slip / np.sqrt(slip @ slip + 0.1**2))
        return [y[1], (np.cross(point, force)[1] + G * x) / 1.01]

    solution = solve_ivp(rate, (0, 0.7), [0, 0], method="DOP853", rtol=1e-12, atol=1e-13, max_step=1e-2)
    return float(solution.y[1, -1])


@pytest.mark.exhaustive
@pytest.mark.sampled(10)
@pytest.mark.parametrize(
    ("formulation", "method", "bound"),
    [("minimal", "rkmk4", 1e-5), ("SO3xR3", "herk4", 1e-5), ("SO3xR3", "generalized-alpha", 2e-3)],
)
def test_pendulum_and_wall_in_joint_and_absolute_coordinates(
    formulation: str, method: str, bound: float, swing_rate: float
) -> None:
    assert abs(swing(formulation, method) - swing_rate) < bound


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rkmk54", "bdf"])
def test_errors_follow_tolerances(method: str, swing_rate: float) -> None:
    loose, tight = (abs(swing("minimal", method, rtol=tol, atol=tol) - swing_rate) for tol in (1e-5, 1e-9))
    assert tight < 1e-6
    assert tight < 1e-2 * loose


@pytest.mark.exhaustive
def test_block_on_an_incline_creeps_as_the_docstring_says() -> None:
    slope, stiffness = np.deg2rad(15), 1e5
    weight = 2 * G * np.cos(slope)
    model = ph.Model(gravity=(G * np.sin(slope), 0, -G * np.cos(slope)))
    model.ground.add_shape(ph.shapes.Plane())
    model.add_body(
        shape=ph.shapes.Box((0.2, 0.2, 0.1)), mass=2.0, position=(0, 0, 0.05 - weight / 4 / stiffness), name="block"
    )
    model.contacts(law="compliant", stiffness=stiffness, exponent=1, damping=5, friction=0.5, slip_speed=1e-3)
    run = ph.simulate(model.problem(t1=1.0, h=5e-3))
    assert run.meta["integrator"]["name"] == "generalized-alpha"
    expected = 1e-3 * np.sin(slope) / np.sqrt((0.5 * np.cos(slope)) ** 2 - np.sin(slope) ** 2)
    np.testing.assert_allclose(np.asarray(run.bodies["block"].velocity)[-1, 0], expected, rtol=1e-6)
    with pytest.warns(ph.StepSizeWarning, match="block"):
        ph.simulate(model.problem(t1=0.01, h=5e-3, integrator="rkmk4"))


@pytest.mark.exhaustive
def test_ball_slides_then_rolls_at_five_sevenths() -> None:
    stiffness = 1e6
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    height = RADIUS - (G / stiffness) ** (2 / 3)
    model.add_body(shape=ph.shapes.Sphere(RADIUS), mass=1.0, position=(0, 0, height), velocity=(2, 0, 0), name="ball")
    model.contacts(law="compliant", stiffness=stiffness, friction=0.3, slip_speed=1e-3)
    run = ph.simulate(model.problem(t1=0.6, h=1e-3))
    velocity, spin = (np.asarray(getattr(run.bodies["ball"], name))[-1] for name in ("velocity", "angular_velocity"))
    # The angular momentum about the point in the middle of the contact, at half the depth.
    arm = 0.5 * (height + RADIUS)
    np.testing.assert_allclose(arm * velocity[0] + 0.4 * RADIUS**2 * spin[1], arm * 2.0, rtol=1e-9)
    assert abs(velocity[0] - arm * spin[1]) < 1e-6


@pytest.mark.exhaustive
def test_a_belt_takes_a_box_along_with_its_friction() -> None:
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    box = model.add_body(
        shape=ph.shapes.Box((0.2, 0.2, 0.1)), mass=2.0, position=(0, 0, 0.05 - 2 * G / 4e5), name="box"
    )
    model.add_contact(
        model.ground, box, law="compliant", stiffness=1e5, exponent=1, damping=1, friction=(0.3, 0.6), slip_speed=1e-4,
        surface_velocity=(0.5, 0, 0), name="belt",
    )  # fmt: skip
    run = ph.simulate(model.problem(t1=0.5, h=1e-3))
    force = np.asarray(run.forces["belt"].force)
    np.testing.assert_allclose(force[5], (0.3 * force[5, 2], 0, force[5, 2]), rtol=1e-6, atol=1e-12)
    np.testing.assert_allclose(np.asarray(run.bodies["box"].velocity)[-1], (0.5, 0, 0), atol=1e-4)


@pytest.mark.exhaustive
def test_rigid_and_compliant_contacts_in_one_model() -> None:
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    lower = model.add_body(shape=ph.shapes.Sphere(RADIUS), mass=1.0, position=(0, 0, RADIUS), name="lower")
    height = 3 * RADIUS - (2 * G / STIFFNESS) ** (2 / 3)
    upper = model.add_body(shape=ph.shapes.Sphere(RADIUS), mass=2.0, position=(0, 0, height), name="upper")
    model.contacts(friction=0.5)
    model.add_contact(lower, upper, law="compliant", stiffness=STIFFNESS, friction=0)
    run = ph.simulate(model.problem(t1=0.1, h=1e-3))
    assert run.meta["integrator"]["name"] == "moreau"
    np.testing.assert_allclose(run.forces["lower/upper"].force[-1], (0, 0, 2 * G), atol=1e-9)
    np.testing.assert_allclose(run.contacts["ground", "lower"].force[-1], (0, 0, 3 * G), atol=1e-9)
    assert list(run.contacts) == ["ground/lower", "ground/upper"]
    for key in (("upper", "lower"), "lower/upper"):
        with pytest.raises(KeyError, match=r"run.forces\['lower/upper'\]"):
            run.contacts[key]


@pytest.mark.exhaustive
def test_equilibrium_is_as_deep_as_the_weight_says() -> None:
    model = ph.Model(gravity=(0, 0, -G))
    model.ground.add_shape(ph.shapes.Plane())
    ball = model.add_body(shape=ph.shapes.Sphere(RADIUS), mass=1.0, position=(0, 0, 0.095), name="ball")
    model.contacts(law="compliant", stiffness=STIFFNESS, friction=0)
    model.add(
        ph.forces.Potential(ball, lambda t, p: jnp.sum(p[0].x[:2] ** 2) + 0.5 * jnp.sum((p[0].R - jnp.eye(3)) ** 2))
    )
    rest = ph.equilibrium(model.problem(t1=1.0, h=1e-3))
    np.testing.assert_allclose(rest.bodies["ball"].position[2], RADIUS - (G / STIFFNESS) ** (2 / 3), rtol=1e-12)


@pytest.mark.exhaustive
def test_derivative_by_the_stiffness() -> None:
    def place(stiffness: Any) -> Any:
        problem = two_balls(stiffness).problem(t1=0.1, h=1e-3, integrator="rkmk4")
        return jnp.asarray(ph.simulate(problem, save_every=100).outputs["positions"])[-1, 1, 1]

    difference = (place(1.001 * STIFFNESS) - place(0.999 * STIFFNESS)) / (0.002 * STIFFNESS)
    np.testing.assert_allclose(jax.grad(place)(STIFFNESS), difference, rtol=1e-3)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        ({"law": "soft"}, "law"),
        ({"stiffness": 1.0}, "`stiffness` is for compliant"),
        ({"damping": 1.0}, "`damping` is for compliant"),
        ({"law": "compliant"}, "hertz_stiffness"),
        ({"law": "compliant", "stiffness": -1.0}, "stiffness"),
        ({"law": "compliant", "stiffness": 1.0, "exponent": 0.5, "friction": 0}, "exponent"),
        ({"law": "compliant", "stiffness": 1.0, "slip_speed": 0.0}, "`slip_speed`"),
        ({"law": "compliant", "stiffness": 1.0, "friction": 0, "restitution": 0.5}, "impact_speed"),
        ({"law": "compliant", "stiffness": 1.0, "friction": 0, "impact_speed": 1.0}, "above 0"),
        (
            {
                "law": "compliant",
                "stiffness": 1.0,
                "friction": 0,
                "restitution": 0.5,
                "impact_speed": 1.0,
                "damping": 2,
            },
            "Give `damping`",
        ),
        ({"law": "compliant", "stiffness": 1.0, "friction": 0, "rolling": 0.1}, "no `rolling`"),
    ],
)
def test_bad_numbers_are_named(law: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        ph.Model().contacts(**law)


def test_bad_materials_are_named() -> None:
    for numbers, message in (
        ((-1.0, 0.3, (1, 1)), "young"),
        ((1.0, 0.6, (1, 1)), "poisson"),
        ((1.0, 0.3, (np.inf, np.inf)), "radii"),
        ((1.0, 0.3, (1, 2, 3)), "radii"),
    ):
        with pytest.raises(ValueError, match=message):
            hertz_stiffness(*numbers)
