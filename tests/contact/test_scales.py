"""Scenes in other units of length, mass and time: motions and modes are those in metres, kilograms and seconds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pytest

import polhode as ph

F, J, G = ph.forces, ph.joints, 9.81


class Units(NamedTuple):
    """Numbers of a metre, a kilogram and a second."""

    length: float = 1.0
    mass: float = 1.0
    time: float = 1.0

    @property
    def speed(self) -> float:
        return self.length / self.time


SI, MICRO, NANO, MEGA = Units(), Units(1e-6, 1e-18, 1e-3), Units(1e-9, 1e-20, 3e-5), Units(1e3, 1e6, 32.0)
TINY, LARGE, SLOW = Units(1e-6), Units(1e3), Units(1e-3, 1e-6, 1 / 32)
BLOCK = (0.2, 0.16, 0.1)


def _floor(units: Units, slope: float = 0.0) -> ph.Model:
    weight = units.length / units.time**2 * G
    model = ph.Model(gravity=(weight * np.sin(slope), 0, -weight * np.cos(slope)))
    model.ground.add_shape(ph.shapes.Plane())
    return model


def _block(model: ph.Model, units: Units, mass: float, position: Any, **motion: Any) -> None:
    shape = ph.shapes.Box(tuple(units.length * x for x in BLOCK))
    model.add_body(mass=mass * units.mass, shape=shape, position=units.length * np.array(position), **motion)


def ball(units: Units) -> ph.Model:
    """A ball that bounces until it rolls."""
    model, velocity = _floor(units), units.speed * np.array([0.5, 0.1, -0.3])
    shape = ph.shapes.Sphere(0.1 * units.length)
    model.add_body(mass=2 * units.mass, shape=shape, position=(0, 0, 0.13 * units.length), velocity=velocity)
    model.contacts(friction=0.3, restitution=0.5)
    return model


def incline(units: Units, friction: float) -> ph.Model:
    """A block on a slope."""
    model = _floor(units, 0.4)
    _block(model, units, 2.0, (0, 0, 0.05))
    model.contacts(friction=friction)
    return model


def tumbling(units: Units) -> ph.Model:
    """A block thrown on a floor."""
    model, velocity = _floor(units), units.speed * np.array([0.5, 0.2, 0.0])
    _block(model, units, 2.0, (0, 0, 0.15), velocity=velocity, angular_velocity=np.array([1, 2, 0.5]) / units.time)
    model.contacts(friction=0.4, restitution=0.2)
    return model


def stack(units: Units) -> ph.Model:
    """A block that slides on another one until it sticks."""
    model = _floor(units)
    _block(model, units, 2.0, (0, 0, 0.05))
    _block(model, units, 1.0, (0.01, 0, 0.15), velocity=(0.3 * units.speed, 0, 0))
    model.contacts(friction=0.4)
    return model


def pendulum(units: Units) -> ph.Model:
    """A double pendulum with a stop and with dry friction."""
    inertia = units.mass * units.length**2
    model = ph.Model(gravity=(0, 0, -units.length / units.time**2 * G))
    add = lambda x, m, k: model.add_body(  # noqa: E731
        mass=m * units.mass, inertia=(k * inertia,) * 3, position=(x * units.length, 0, 0)
    )
    first, second = add(0.25, 1.0, 0.02), add(0.7, 0.7, 0.01)
    upper = model.add(J.Revolute(model.ground, first, point=(0, 0, 0), axis=(0, 1, 0), name="upper"))
    point = (0.5 * units.length, 0, 0)
    lower = model.add(J.Revolute(first, second, point=point, axis=(0, 1, 0), name="lower"))
    model.add(F.JointStops(upper, limits=(-0.5, 0.3), restitution=0.4))
    model.add(F.JointFriction(lower, 0.3 * inertia / units.time**2))
    return model


def drawer(units: Units) -> ph.Model:
    """A body on a guide with a stop at one end, which it meets at the origin."""
    model = ph.Model(gravity=(units.length / units.time**2 * 4.0, 0, 0))
    body = model.add_body(
        mass=units.mass, inertia=(units.mass * units.length**2,) * 3, position=(-0.05 * units.length, 0, 0)
    )
    guide = model.add(J.Prismatic(model.ground, body, axis=(1, 0, 0), name="guide"))
    model.add(F.JointStops(guide, limits=(-np.inf, 0.05 * units.length), restitution=0.5))
    model.add(F.JointFriction(guide, units.mass * units.length / units.time**2))
    return model


SCENES: dict[str, tuple[Callable[[Units], ph.Model], float]] = {
    "ball": (ball, 0.5),
    "sticks": (lambda units: incline(units, 0.6), 0.2),
    "slides": (lambda units: incline(units, 0.3), 0.2),
    "tumbling": (tumbling, 0.4),
    "stack": (stack, 0.2),
    "pendulum": (pendulum, 0.4),
    "drawer": (drawer, 0.4),
}


def run(scene: str, method: str, units: Units) -> Any:
    """A run of a scene with times in these units, too."""
    build, t1 = SCENES[scene]
    problem = build(units).problem(t1=t1 * units.time, h=2e-3 * units.time)
    if method == "rkmk54":
        return ph.simulate(problem, method, rtol=1e-8, save_at=units.time * np.arange(0.0, t1, 0.02))
    return ph.simulate(problem, method)


def modes(solution: Any) -> list[np.ndarray]:
    """Modes of all contacts and of friction of all joints."""
    contacts = [solution.contacts[name].mode for name in solution.contacts]
    joints = [joint.mode for joint in map(solution.joints.__getitem__, solution.joints) if hasattr(joint, "mode")]
    return [np.asarray(x) for x in contacts + joints]


def assert_same(scene: str, method: str, units: Units, atol: float = 1e-11) -> None:
    there, here = run(scene, method, units), run(scene, method, SI)
    positions = [np.asarray(each.frames.outputs["positions"]) for each in (there, here)]
    np.testing.assert_allclose(positions[0] / units.length, positions[1], rtol=0, atol=atol)
    for one, other in zip(modes(there), modes(here), strict=True):
        np.testing.assert_array_equal(one, other)


@pytest.mark.parametrize("method", ["rattle", pytest.param("moreau", marks=pytest.mark.exhaustive)])
@pytest.mark.exhaustive
def test_a_ball_of_less_than_a_micron_rolls_like_one_of_metres(method: str) -> None:
    assert_same("ball", method, NANO)


@pytest.mark.exhaustive
@pytest.mark.parametrize("method", ["rattle", "generalized-alpha", "moreau"])
@pytest.mark.parametrize("scene", list(SCENES))
def test_motions_are_the_same_in_all_units(scene: str, method: str) -> None:
    """What tumbles by `moreau` takes another round where round-off has it so."""
    for units in (TINY, LARGE, SLOW, MICRO, NANO, MEGA):
        assert_same(scene, method, units, 1e-7 if scene == "tumbling" else 1e-11)


@pytest.mark.exhaustive
@pytest.mark.parametrize("scene", ["ball", "slides", "pendulum", "drawer"])
def test_located_impacts_are_the_same_in_all_units(scene: str) -> None:
    """As far as tolerances of time allow, in which impacts are located."""
    for units in (TINY, LARGE, SLOW, MICRO, MEGA):
        assert_same(scene, "rkmk54", units, 1e-8)
