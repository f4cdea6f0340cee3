"""What every joint and every force must do, on all that are exported: a new one fails until it has a row here.

Rates along motions against differences of the values themselves, other frames, action and reaction, energy, derivatives
in both modes where bodies touch and where they don't, batches. All of it is evaluated by NumPy, which compiles nothing.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode import particles as pt
from polhode.multibody.mechanism.poses import Pose, Twist
from polhode.multibody.parts import AbstractForce, AbstractJoint
from polhode.particles.contact_elements import SphereContact, WallContact

J, F = ph.joints, ph.forces
POINT, OTHER, AXIS, ACROSS = (0.4, -0.3, 0.9), (0.7, 0.2, 0.7), (1.0, 2.0, -0.5), (2.0, -1.0, 0.0)
STEP = 2e-3
AROUND = STEP * jnp.arange(-3.0, 4.0)
HERE = 3


def angle(t: Any) -> Any:
    return jnp.sin(3 * t) + t


def shift(t: Any) -> Any:
    return jnp.stack((t, t**2, jnp.sin(t)))


def rotate(t: Any) -> Any:
    return _about(jnp.asarray([0.6, 0.0, 0.8]), angle(t))


def _about(axis: Any, angle: Any) -> Any:
    """Rodrigues' formula."""
    x, y, z = axis
    K = jnp.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return jnp.eye(3) + jnp.sin(angle) * K + (1 - jnp.cos(angle)) * (K @ K)


def bodies() -> tuple[ph.Model, Any, Any]:
    model = ph.Model()
    a = model.add_body(
        mass=1, inertia=(1, 1.5, 2), position=(0.1, 0.2, 0.3), rotation=ph.rotation_vector((0.3, -0.2, 1))
    )
    b = model.add_body(
        mass=2, inertia=(2, 1.5, 1), position=(1.1, -0.4, 0.8), rotation=ph.rotation_vector((-1, 0.5, 0))
    )
    return model, a, b


def hinge(a: Any, b: Any) -> Any:
    return J.Revolute(a, b, POINT, AXIS)


def belt(a, b):
    return ph.joints.Combination([hinge(a, b), hinge(b, a)], (1.0, -0.5))


JOINTS: dict[str, Callable[[Any, Any], Any]] = {
    "Spherical": lambda a, b: J.Spherical(a, b, POINT),
    "Revolute": hinge,
    "Prismatic": lambda a, b: J.Prismatic(a, b, AXIS, POINT),
    "Cylindrical": lambda a, b: J.Cylindrical(a, b, POINT, AXIS),
    "Planar": lambda a, b: J.Planar(a, b, AXIS, POINT),
    "Universal": lambda a, b: J.Universal(a, b, POINT, AXIS, ACROSS),
    "Fixed": lambda a, b: J.Fixed(a, b, POINT),
    "Screw": lambda a, b: J.Screw(a, b, POINT, AXIS, 3.0),
    "Distance": lambda a, b: J.Distance(a, b, POINT, OTHER),
    "PointOnLine": lambda a, b: J.PointOnLine(a, b, POINT, AXIS),
    "Generic": lambda a, b: J.Generic(a, b, POINT, ("x", "ry", "rz")),
    "PrescribedRotation": lambda a, b: J.PrescribedRotation(a, b, AXIS, angle),
    "PrescribedTranslation": lambda a, b: J.PrescribedTranslation(a, b, AXIS, angle, POINT),
    "PrescribedMotion": lambda a, b: J.PrescribedMotion(a, b, POINT, shift, rotate),
    "PrescribedPose": lambda a, b: J.PrescribedPose(
        a, b, lambda t: a.R.T @ (b.x - a.x) + shift(t), lambda t: a.R.T @ b.R @ rotate(t)
    ),
}

ROLLING: dict[str, Callable[[Any, Any], Any]] = {
    "RollingDisc": lambda a, b: J.RollingDisc(a, b, ACROSS, 0.7, (0, 0, 0.2), AXIS),
    "RollingBall": lambda a, b: J.RollingBall(a, b, 0.7, (0, 0, 0.2), AXIS),
    "KnifeEdge": lambda a, b: J.KnifeEdge(a, b, POINT, ACROSS),
}
"""Those that hold velocities."""


@dataclasses.dataclass(frozen=True)
class Row:
    """A force, the axis about which alone it is the same in all directions, None for all, and what it acts on.

    `singular`: whether it grows without bound where its points meet, as the shear of a bond does, with 1/length.
    """

    make: Callable[[Any, Any], Any]
    axis: tuple[float, float, float] | None = None
    nodes: int = 2
    singular: bool = False


FORCES: dict[str, Row] = {
    "SpringDamper": Row(lambda a, b: F.SpringDamper(a, b, POINT, OTHER, 3.0, length=0.4)),
    "SpringDamper damped": Row(lambda a, b: F.SpringDamper(a, b, POINT, OTHER, 3.0, 0.7)),
    "SpringDamper between centres": Row(lambda a, b: F.SpringDamper(a, b, a.x, b.x, 3.0, 0.7, length=0.4)),
    "TorsionalSpringDamper": Row(lambda a, b: F.TorsionalSpringDamper(a, b, AXIS, 2.0, angle=0.4)),
    "TorsionalSpringDamper damped": Row(lambda a, b: F.TorsionalSpringDamper(a, b, AXIS, 2.0, 0.3)),
    "Bushing": Row(lambda a, b: F.Bushing(a, b, POINT, (1.0, 2.0, 3.0), rotational_stiffness=(3.0, 2.0, 1.0))),
    "Bushing damped": Row(lambda a, b: F.Bushing(a, b, POINT, 1.0, 0.2, (3.0, 2.0, 1.0), (0.3, 0.2, 0.1))),
    "JointSpring": Row(lambda a, b: F.JointSpring(hinge(a, b), 2.0, rest=0.3)),
    "JointSpring damped": Row(lambda a, b: F.JointSpring(hinge(a, b), 2.0, 0.4, rest=0.3)),
    "JointStops": Row(lambda a, b: F.JointStops(hinge(a, b), (-0.01, 0.02), 5.0, 0.4)),
    "JointFriction": Row(lambda a, b: F.JointFriction(hinge(a, b), 2.0, 0.1)),
    "Actuator": Row(lambda a, b: F.Actuator(hinge(a, b), angle, 2.0, (0.1, -1.0, -0.2), 1.5)),
    "JointSpring of a combination": Row(lambda a, b: F.JointSpring(belt(a, b), 2.0, rest=0.3), nodes=4),
    "Tendon": Row(lambda a, b: F.Tendon([(a, POINT), (b, OTHER)], 3.0, length=0.1)),
    "Tendon damped": Row(lambda a, b: F.Tendon([(a, POINT), (b, OTHER)], 3.0, 0.7, length=0.1)),
    "JointControl": Row(lambda a, b: F.JointControl([hinge(a, b)], lambda t, s, rates: jnp.sin(t) - 2 * s - rates)),
    "PD": Row(lambda a, b: F.PD(hinge(a, b), 3.0, 0.5, angle)),
    "PID": Row(lambda a, b: F.PID(hinge(a, b), 3.0, 2.0, 0.5, angle), nodes=3),
    "PID of a combination": Row(lambda a, b: F.PID(belt(a, b), 3.0, 2.0, 0.5, angle), nodes=5),
    "PointForce": Row(lambda a, b: F.PointForce(a, AXIS, POINT), AXIS, 1),
    "PointForce of time": Row(lambda a, b: F.PointForce(a, shift, POINT, frame="body"), nodes=1),
    "Torque": Row(lambda a, b: F.Torque(a, AXIS), AXIS, 1),
    "Torque of time": Row(lambda a, b: F.Torque(a, shift, frame="body"), nodes=1),
    "PlaneContact": Row(lambda a, b: F.PlaneContact(a, (0, 0, 0), AXIS, 40.0, 2.0, exponent=1.5), AXIS, 1),
    "PlaneContact damped": Row(lambda a, b: F.PlaneContact(a, (0, 0, 0), AXIS, 40.0, 2.0, 0.1), AXIS, 1),
    "Potential": Row(lambda a, b: F.Potential((a, b), lambda t, p: jnp.sum((p[0].x - p[1].x) ** 2) ** 2)),
    "Load": Row(
        lambda a, b: F.Load((a, b), lambda t, p, w: [(w[0].omega, w[1].u - w[0].u), (-w[1].omega, w[0].u - w[1].u)])
    ),
    "Bond": Row(lambda a, b: pt.Bond(a, b, pt.BondMaterial(2.0, 30.0, 10.0)), singular=True),
    "Bond damped": Row(
        lambda a, b: pt.Bond(a, b, pt.BondMaterial(2.0, 30.0, 10.0, axial_damping=0.3, bending_damping=0.2)),
        singular=True,
    ),
    "SphereContact": Row(lambda a, b: SphereContact(a, b, 40.0, 6.0)),
    "SphereContact damped": Row(lambda a, b: SphereContact(a, b, 40.0, 6.0, 0.4)),
    "WallContact": Row(lambda a, b: WallContact(a, pt.Plane((0, 0, 0), AXIS), 40.0, 2.0), AXIS, 1),
    "WallContact damped": Row(lambda a, b: WallContact(a, pt.Plane((0, 0, 0), AXIS), 40.0, 2.0, 0.1), AXIS, 1),
}

CONTACTS = {"SphereContact", "WallContact"}
"""Those that `Model.add_particles` makes."""
RIGID = {"PivotFriction"}
"""Those that are contacts and no functions of the state; see tests/contact/test_pivot_friction.py."""


def export_model(module: Any, base: type) -> set[str]:
    # Of `dir`, since parts are loaded when they are asked for.
    named = {name: getattr(module, name) for name in dir(module)}
    parts = {name: part for name, part in named.items() if inspect.isclass(part) and issubclass(part, base)}
    return {name for name, part in parts.items() if not inspect.isabstract(part)}


def test_every_joint_and_force_has_a_row() -> None:
    # A rotor is a constraint on a coordinate that it brings along; see tests/joints/test_rotor.py.
    assert export_model(J, AbstractJoint) == {*JOINTS, *ROLLING, "RotorInertia"}
    rows = {name.partition(" ")[0] for name in FORCES}
    assert export_model(F, AbstractForce) | export_model(pt, AbstractForce) | CONTACTS == rows | RIGID
    _, a, b = bodies()
    for name, make in (*JOINTS.items(), *ROLLING.items(), *((name, row.make) for name, row in FORCES.items())):
        assert type(make(a, b)).__name__ == name.partition(" ")[0]


def place_element(make: Callable[[Any, Any], Any]) -> tuple[Any, tuple[Pose, ...]]:
    """The element, and where its bodies are at the start."""
    _, a, b = bodies()
    part = make(a, b)
    poses = tuple(Pose(jnp.asarray(body.x), jnp.asarray(body.R)) for body in part.bodies)
    return part.place(poses), poses


def somewhere(count: int) -> tuple[tuple[Pose, ...], tuple[Twist, ...]]:
    rng = np.random.default_rng(8)
    poses = tuple(Pose(jnp.asarray(rng.normal(size=3)), _anywhere(rng)) for _ in range(count))
    return poses, tuple(Twist(*jnp.asarray(rng.normal(size=(2, 3)))) for _ in range(count))


def _anywhere(rng: np.random.Generator) -> Any:
    return ph.rotation_vector(tuple(0.6 * rng.normal(size=3)))


def move_bodies(poses: Any, twists: Any, s: Any) -> tuple[Pose, ...]:
    """After a time s with constant twists."""
    return tuple(
        Pose(p.x + s * w.u, p.R @ _about(w.omega / jnp.linalg.norm(w.omega), s * jnp.linalg.norm(w.omega)))
        for p, w in zip(poses, twists, strict=True)
    )


def by_differences(values: Any) -> tuple[np.ndarray, np.ndarray]:
    """First and second derivative in the middle of seven values; errors O(STEP⁶)."""
    f = np.asarray(values)
    first = (f[6] - 9 * f[5] + 45 * f[4] - 45 * f[2] + 9 * f[1] - f[0]) / (60 * STEP)
    second = (2 * (f[0] + f[6]) - 27 * (f[1] + f[5]) + 270 * (f[2] + f[4]) - 490 * f[3]) / (180 * STEP**2)
    return first, second


def rigid(axis: Any) -> tuple[Any, Any]:
    """A rotation about an axis, and a shift across it; any ones for None."""
    if axis is None:
        return ph.rotation_vector((0.4, -1.1, 2.0)), jnp.array([0.3, -0.2, 0.5])
    n = jnp.asarray(axis) / jnp.linalg.norm(jnp.asarray(axis))
    y = jnp.array([0.3, -0.2, 0.5])
    return _about(n, 1.3), y - n * (n @ y)


T = jnp.asarray(0.37)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", JOINTS)
def test_rows_of_joints_are_the_rates_of_what_must_vanish(name: str) -> None:
    """And their batches are loops."""
    element, _ = place_element(JOINTS[name])
    poses, twists = somewhere(2)

    def measured(poses: Any, twists: Any) -> Any:
        gap = lambda s: element.residual(T + s, move_bodies(poses, twists, s))  # noqa: E731
        rate = lambda s: jax.jvp(gap, (s,), (1.0,))[1]  # noqa: E731
        rows = element.gradients(T, poses)
        told = jax.jvp(lambda t: element.residual(t, poses), (T,), (1.0,))[1]
        along = sum(B @ jnp.concatenate(w) for B, w in zip(rows, twists, strict=True)) + told
        return jax.vmap(gap)(AROUND), [gap(s) for s in AROUND], along, jax.jvp(rate, (0.0,), (1.0,))[1]

    batch, values, rate, curvature = evaluated(measured, poses, twists)
    assert values[HERE].shape == (element.size,)
    np.testing.assert_allclose(batch, np.stack(values), atol=1e-14)
    first, second = by_differences(values)
    assert np.abs(first).min() > 1e-3
    np.testing.assert_allclose(rate, first, atol=1e-9 * max(1, np.abs(first).max()))
    np.testing.assert_allclose(curvature, second, atol=1e-7 * max(1, np.abs(second).max()))


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", JOINTS)
def test_joints_look_the_same_from_everywhere_and_act_as_they_react(name: str) -> None:
    element, start = place_element(JOINTS[name])
    poses, _ = somewhere(2)
    Q, y = rigid(None)

    def measured(poses: Any, start: Any) -> Any:
        there = tuple(Pose(y + Q @ p.x, Q @ p.R) for p in poses)
        rows = element.gradients(jnp.zeros(()), start)
        force = sum(B[:, 3:] for B in rows)
        moment = sum(jnp.cross(p.x, B[:, 3:]) + B[:, :3] @ p.R.T for p, B in zip(start, rows, strict=True))
        gaps = [element.residual(T, p) for p in (poses, there)]
        return gaps, element.residual(jnp.zeros(()), start), force, moment

    (here, there), closed, force, moment = evaluated(measured, poses, start)
    np.testing.assert_allclose(closed, 0, atol=1e-14)
    np.testing.assert_allclose(force, 0, atol=1e-14)
    np.testing.assert_allclose(moment, 0, atol=1e-14)
    # Three components of a vector turn; all others stay.
    assert np.linalg.norm(there) == pytest.approx(np.linalg.norm(here), rel=1e-14)
    np.testing.assert_allclose(there[3:], here[3:], atol=1e-14)
    assert np.linalg.norm(here) > 0.1


@pytest.mark.parametrize("name", ROLLING)
def test_rows_that_hold_velocities(name: str) -> None:
    """Rates are linear in twists and those of what must vanish of positions, the same from everywhere; rows balance."""
    element, _ = place_element(ROLLING[name])
    poses, twists = somewhere(2)
    Q, y = rigid(None)

    def measured(poses: Any, twists: Any) -> Any:
        there = tuple(Pose(y + Q @ p.x, Q @ p.R) for p in poses)
        moving = tuple(w._replace(u=Q @ w.u) for w in twists)
        rows = element.gradients(T, poses)
        along = sum(B @ jnp.concatenate(w) for B, w in zip(rows, twists, strict=True))
        force = sum(B[:, 3:] for B in rows)
        moment = sum(jnp.cross(p.x, B[:, 3:]) + B[:, :3] @ p.R.T for p, B in zip(poses, rows, strict=True))
        gaps = [element.residual(T, move_bodies(poses, twists, s)) for s in AROUND]
        return gaps, element.rate(T, poses, twists), element.rate(T, there, moving), along, force, moment

    gaps, rate, there, along, force, moment = evaluated(measured, poses, twists)
    held = element.size - element.slips
    assert element.slips >= 1
    np.testing.assert_array_equal(np.stack(gaps)[:, held:], 0)
    np.testing.assert_allclose(rate[:held], by_differences(gaps)[0][:held], atol=1e-8)
    np.testing.assert_allclose(along, rate, atol=1e-13)
    assert np.linalg.norm(there) == pytest.approx(np.linalg.norm(rate), rel=1e-13)
    np.testing.assert_allclose(force, 0, atol=1e-13)
    np.testing.assert_allclose(moment, 0, atol=1e-13)
    assert np.abs(rate).min() > 1e-3


@pytest.mark.sampled(24)
@pytest.mark.parametrize("name", FORCES)
def test_loads_follow_motions_and_come_from_what_is_stored(name: str) -> None:
    """Their rates against differences; power against those of the potential; batches against loops."""
    row = FORCES[name]
    element, _ = place_element(row.make)
    poses, twists = somewhere(row.nodes)

    def measured(poses: Any, twists: Any) -> Any:
        def loads(s: Any) -> Any:
            there = move_bodies(poses, twists, s)
            wrenches = element.wrenches(T + s, there, twists)
            return jnp.concatenate([jnp.concatenate(w) for w in wrenches]), element.potential(T + s, there)

        (here, stored), rates = jax.jvp(loads, (0.0,), (1.0,))
        power = here @ jnp.concatenate([jnp.concatenate(w) for w in twists])
        return jax.vmap(loads)(AROUND), [loads(s) for s in AROUND], rates, power, stored

    batch, values, (rate, stored_rate), power, stored = evaluated(measured, poses, twists)
    for k in range(2):
        np.testing.assert_allclose(batch[k], np.stack([v[k] for v in values]), rtol=1e-13, atol=1e-13)
    (first, _), (stored_first, _) = (by_differences([v[k] for v in values]) for k in range(2))
    size = max(1, np.abs(first).max())
    np.testing.assert_allclose(rate, first, atol=1e-8 * size)
    np.testing.assert_allclose(stored_rate, stored_first, atol=1e-8 * size)
    assert np.abs(values[HERE][0]).max() > 0.1
    if element.conservative:
        assert power == pytest.approx(-stored_first, rel=1e-8)
        assert abs(stored) > 1e-3
    if not element.uses_poses and not element.uses_twists and "time" not in name:
        np.testing.assert_array_equal(first, 0)


@pytest.mark.sampled(12)
@pytest.mark.parametrize("name", FORCES)
def test_loads_turn_with_those_who_look(name: str) -> None:
    row = FORCES[name]
    element, _ = place_element(row.make)
    poses, twists = somewhere(row.nodes)
    Q, y = rigid(row.axis)

    def measured(poses: Any, twists: Any) -> Any:
        # The third node is a coordinate, which has no direction.
        there = tuple(Pose(y + Q @ p.x, Q @ p.R) for p in poses[:2])
        moving = tuple(w._replace(u=Q @ w.u) for w in twists[:2])
        here = element.wrenches(T, poses, twists)
        turned = element.wrenches(T, (*there, *poses[2:]), (*moving, *twists[2:]))
        back = tuple(w._replace(force=Q.T @ w.force) for w in turned[:2])
        potentials = [element.potential(T, p) for p in (poses, (*there, *poses[2:]))]
        return here, (*back, *turned[2:]), potentials

    here, turned, (stored, again) = evaluated(measured, poses, twists)
    for one, other in zip(here, turned, strict=True):
        np.testing.assert_allclose(other.torque, one.torque, rtol=1e-13, atol=1e-13)
        np.testing.assert_allclose(other.force, one.force, rtol=1e-13, atol=1e-13)
    assert float(again) == pytest.approx(float(stored), rel=1e-13, abs=1e-14)


SIZES = (0.0, 1e-300, 1e-160, 1e-12, 1e-8, 1e-3, 1.0, np.pi)


@pytest.mark.sampled(96)
@pytest.mark.parametrize("name", [*JOINTS, *FORCES])
@pytest.mark.parametrize("meeting", [False, True], ids=["from the start", "from where all bodies meet"])
def test_derivatives_are_finite_and_agree_at_every_distance(name: str, meeting: bool) -> None:
    """Reverse and forward mode, in turns and shifts of all bodies, and in their twists."""
    element, start = place_element(JOINTS[name] if name in JOINTS else FORCES[name].make)
    count = 2 if name in JOINTS else FORCES[name].nodes
    origin = Pose(jnp.zeros(3), jnp.eye(3))
    start = (origin,) * count if meeting else (*start, *(origin,) * (count - len(start)))
    direction = jnp.asarray(np.random.default_rng(2).normal(size=12 * count) / 6)

    def value(x: Any) -> Any:
        parts = x.reshape(count, 4, 3)
        poses = tuple(
            Pose(p.x + part[0], p.R @ ph.rotation_vector(part[1])) for p, part in zip(start, parts, strict=True)
        )
        if name in JOINTS:
            found = element.residual(T, poses)
        else:
            wrenches = element.wrenches(T, poses, tuple(Twist(part[2], part[3]) for part in parts))
            found = jnp.concatenate([*(part for w in wrenches for part in w), element.potential(T, poses)[None]])
        return jnp.sin(found + jnp.arange(found.size)) @ jnp.cos(jnp.arange(found.size))

    def measured(size: Any) -> Any:
        x = size * direction
        gradient = jax.grad(value)(x)
        # The direction of a force across the line of its points changes with one over their distance.
        return value(x), gradient @ direction, jax.jvp(value, (x,), (direction,))[1], jnp.max(jnp.abs(gradient))

    # One over the square of a length below 1e-154 is no number.
    sizes = [size for size in SIZES if not (name in FORCES and FORCES[name].singular and 1e-300 < size < 1e-154)]
    values, reverse, forward, largest = evaluated(jax.vmap(measured), jnp.asarray(sizes))
    assert np.isfinite(values).all()
    assert np.isfinite(reverse).all()
    assert np.all(np.abs(reverse - forward) <= 1e-13 * (1 + largest))
