"""Forces: power, action and reaction, tangents, singular places, controllers."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from jaxtyping import Array

import polhode as ph
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists, rates

F, J = ph.forces, ph.joints
T = jnp.asarray(0.7)


class Sine(eqx.Module):
    """A target with numbers that JAX sees."""

    amplitude: Array
    frequency: float = 2.0

    def __call__(self, t: Array) -> Array:
        return self.amplitude * jnp.sin(self.frequency * t)


def hinge(a: Any, b: Any) -> Any:
    return J.Revolute(a, b, (0.5, 0.2, 0), (1, 2, 3))


def slider(a: Any, b: Any) -> Any:
    return J.Prismatic(a, b, (1, 2, 3), (0.5, 0.2, 0))


P0, P1 = (0.3, -0.1, 0.2), (1.1, 0.5, -0.3)
PAIRS: dict[str, Callable[[Any, Any], Any]] = {
    "spring": lambda a, b: F.SpringDamper(a, b, P0, P1, 3.0, length=0.4),
    "spring-damper": lambda a, b: F.SpringDamper(a, b, P0, P1, 3.0, 0.7),
    "torsional spring": lambda a, b: F.TorsionalSpringDamper(a, b, (1, 2, 3), 2.0, angle=0.4),
    "torsional spring-damper": lambda a, b: F.TorsionalSpringDamper(a, b, (1, 2, 3), 2.0, 0.3),
    "springs along axes": lambda a, b: F.Bushing(a, b, P0, (1.0, 2.0, 3.0)),
    "bushing": lambda a, b: F.Bushing(a, b, P0, (1.0, 2.0, 3.0), rotational_stiffness=(3.0, 2.0, 1.0)),
    "damped bushing": lambda a, b: F.Bushing(a, b, P0, 1.0, 0.2, (3.0, 2.0, 1.0), (0.3, 0.2, 0.1)),
    "PD on a hinge": lambda a, b: F.PD(hinge(a, b), 3.0, 0.5, Sine(jnp.asarray(1.5))),
    "PD on a slider": lambda a, b: F.PD(slider(a, b), 3.0, 0.5, lambda t: t * t),
    "potential": lambda a, b: F.Potential((a, b), lambda t, p: jnp.sum((p[0].x - p[1].x) ** 2) ** 2),
    "load": lambda a, b: F.Load((a, b), lambda t, p, w: [(jnp.zeros(3), w[1].u), (jnp.zeros(3), -w[1].u)]),
}


def bodies() -> tuple[ph.Model, Any, Any]:
    model = ph.Model()
    a = model.add_body(mass=1, inertia=(1, 1.5, 2), position=P0, rotation=ph.rotation_vector((0.2, 0.1, -0.4)))
    b = model.add_body(mass=2, inertia=(2, 1.5, 1), position=P1, rotation=ph.rotation_vector((-0.3, 0.5, 0.2)))
    return model, a, b


def somewhere(seed: int) -> tuple[Poses, Twists]:
    rng = np.random.default_rng(seed)
    poses = tuple(
        Pose(jnp.asarray(rng.normal(size=3)), ph.rotation_vector(tuple(0.6 * rng.normal(size=3)))) for _ in range(2)
    )
    return poses, tuple(Twist(jnp.asarray(rng.normal(size=3)), jnp.asarray(rng.normal(size=3))) for _ in range(2))


@functools.cache
def elements() -> dict[str, Any]:
    """All forces between two bodies."""
    _, a, b = bodies()
    return {name: make(a, b).place((Pose(a.x, a.R), Pose(b.x, b.R))) for name, make in PAIRS.items()}


@functools.cache
def loads() -> dict[str, Any]:
    """Power, force, moment and rate of the stored energy of all forces, compiled as one program."""

    def measured(element: Any, poses: Poses, twists: Twists) -> Any:
        wrenches = element.wrenches(T, poses, twists)
        power = sum(w.torque @ m.omega + w.force @ m.u for w, m in zip(wrenches, twists, strict=True))
        force = wrenches[0].force + wrenches[1].force
        moment = sum(jnp.cross(p.x, w.force) + p.R @ w.torque for w, p in zip(wrenches, poses, strict=True))
        stored = jax.jvp(lambda p: element.potential(T, p), (poses,), (rates(poses, twists),))[1]
        return power, force, moment, stored

    parts = elements()
    return evaluated(lambda *at: {name: measured(element, *at) for name, element in parts.items()}, *somewhere(4))


@pytest.mark.sampled(3)
@pytest.mark.parametrize("name", PAIRS)
def test_action_is_reaction_and_power_comes_from_the_store(name: str) -> None:
    element = elements()[name]
    power, force, moment, stored = loads()[name]
    np.testing.assert_allclose(force, 0, atol=1e-14)
    if name != "load":
        np.testing.assert_allclose(moment, 0, atol=2e-14)
    if element.conservative:
        assert abs(float(power + stored)) < 2e-14 * max(1, abs(float(power)))
        assert abs(float(power)) > 1e-3
    elif "PD" not in name and name != "load":
        assert float(power + stored) < 0


def test_a_spring_without_length_is_smooth_where_its_ends_meet() -> None:
    _, a, b = bodies()
    element = F.SpringDamper(a, b, P0, P0, 3.0).place((Pose(a.x, a.R), Pose(b.x, b.R)))
    meeting = (Pose(element.s0 * 0, jnp.eye(3)), Pose(element.s0 - element.s1, jnp.eye(3)))
    twists = somewhere(1)[1]
    pull = lambda d: element.wrenches(T, (meeting[0], meeting[1]._replace(x=meeting[1].x + d)), twists)[0].force  # noqa: E731
    np.testing.assert_allclose(evaluated(jax.jacfwd(pull), jnp.zeros(3)), 3.0 * np.eye(3), atol=1e-15)


def test_dead_forces_store_energy_and_others_do_not() -> None:
    model, a, _ = bodies()
    model.add(F.PointForce(a, (1, 2, 3), (1, 1, 1)))
    system, (q, v) = model.assemble("SE3")
    assert system.conservative
    v = v.at[:6].set(jnp.arange(6.0))

    def powers(v: Array) -> Any:
        stored = jax.jvp(lambda s: system.potential_energy(T, system.flow(q, v, s)), (0.0,), (1.0,))[1]
        return v @ system.force(T, q, v), stored

    power, stored = evaluated(powers, v)
    assert float(power) == pytest.approx(-float(stored), rel=1e-13)
    model.add(F.PointForce(a, lambda t: jnp.stack((t, t, t))))
    assert not model.assemble("SE3")[0].conservative


def test_forces_and_torques_of_time_act_in_their_frames() -> None:
    _, a, _ = bodies()
    start = (Pose(a.x, a.R),)
    poses = (somewhere(2)[0][0],)
    value = lambda t: jnp.stack((t, t * t, 1.0 + t))  # noqa: E731
    R, x = poses[0].R, poses[0].x
    s = a.R.T @ (jnp.asarray(P1) - a.x)
    rest = (Twist(jnp.zeros(3), jnp.zeros(3)),)
    for frame, turned in (("inertial", value(T)), ("body", R @ value(T))):
        (load,) = F.PointForce(a, value, P1, frame=frame).place(start).wrenches(T, poses, rest)
        np.testing.assert_allclose(load.force, turned, atol=1e-15)
        np.testing.assert_allclose(R @ load.torque, jnp.cross(R @ s, turned), atol=1e-14)
        (load,) = F.Torque(a, value, frame=frame).place(start).wrenches(T, poses, rest)
        np.testing.assert_allclose(R @ load.torque, turned, atol=1e-15)
        assert not load.force.any()
    assert x.shape == (3,)


def step(t: Array) -> Array:
    """A target that jumps between two instants of a run."""
    return jnp.where(t < 0.9995, 0.0, 1.0)


PD = (lambda joint: F.PD(joint, 50.0, 15.0, target=2.0), 2.0, 0.5 / 50)
PID = (lambda joint: F.PID(joint, 50.0, 60.0, 15.0, target=2.0), 2.0, 0.0)
RAMP = (lambda joint: F.PID(joint, 50.0, 60.0, 15.0, target=lambda t: 7.0 * t), 70.0, 0.0)
STEP = (lambda joint: F.PID(joint, 50.0, 60.0, 15.0, target=step, name="stepping"), 1.0, 0.0)


@pytest.mark.parametrize("controllers", [(PD, RAMP, STEP), pytest.param((PID,), marks=pytest.mark.exhaustive)], ids=len)
def test_controllers_hold_their_target(controllers: Any) -> None:
    """Free bodies with controllers of their angles about z, and a constant torque against each."""
    model, joints = ph.Model(), []
    for make, _, _ in controllers:
        body = model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0))
        joints.append(J.Revolute(model.ground, body, (0, 0, 0), (0, 0, 1)))
        model.add(make(joints[-1]))
        model.add(F.Torque(body, (0, 0, 0.5), frame="body"))
    system, state = model.assemble("SO3xR3")
    run = ph.simulate(system, "lie-euler", h=0.02, t1=10.0, state0=state, save_every=None)
    end = jax.tree.map(lambda a: a[-1], run.state)
    for joint, (_, target, error) in zip(joints, controllers, strict=True):
        reached = float(joint.value(system, 10.0, end))
        assert reached == pytest.approx(target + error, abs=2e-5)
    if STEP in controllers:
        # The integral of the error is what holds the torque.
        np.testing.assert_allclose(end[1][system.columns("stepping-integral")], 0.5 / 60, rtol=1e-3)


@pytest.mark.exhaustive
@pytest.mark.parametrize("formulation", ["SO3xR3", "minimal"])
def test_integral_of_the_error_starts_at_zero_and_grows_with_the_error(formulation: str) -> None:
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(1.0, 1.0, 1.0))
    joint = J.Revolute(model.ground, body, (0, 0, 0), (0, 0, 1))
    model.add(joint)
    model.add(F.PID(joint, 50.0, 60.0, 15.0, target=lambda t: 0.3 + 0.2 * t, name="arm"))
    system, (q, v) = model.assemble(formulation, t0=1.5)
    place = system.columns("arm-integral")
    assert (system.names, system.shown) == (("body-1", "arm-integral"), ("body-1",))
    np.testing.assert_array_equal(v[place], [0.0])
    start = lambda v: system.accelerations(jnp.asarray(1.5), q, v)[0]  # noqa: E731
    grown = v.at[place].set(0.1)
    first, second = evaluated(lambda v, w: (start(v), start(w)), v, grown)
    np.testing.assert_allclose(first[place], [-0.6], atol=1e-15)
    about = system.columns(body)[-1:] if formulation == "minimal" else system.columns(body)[2:3]
    np.testing.assert_allclose(first[about] - second[about], [6.0], rtol=1e-13)
    outputs = system.outputs()
    assert outputs["positions"](jnp.zeros(()), (q, grown)).shape == (1, 3)
    assert float(outputs["kinetic_energy"](jnp.zeros(()), (q, grown))) == 0.0


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda m, a, b: F.SpringDamper(a, a, P0, P1, 1.0), "with itself"),
        (lambda m, a, b: F.SpringDamper(a, b, P0, P1, "soft"), "`stiffness` must be numeric"),
        (lambda m, a, b: F.Bushing(a, b, P0, np.arange(9).reshape(3, 3)), "must be symmetric"),
        (lambda m, a, b: F.Torque(m.add_point(mass=1, position=P0), (0, 0, 1)), "needs the rotation"),
        (lambda m, a, b: F.PointForce(a, (0, 0, 1), frame="local"), "`frame` must be one of"),
        (lambda m, a, b: F.PointForce(a, lambda t: t), "must return an array of shape"),
        (lambda m, a, b: F.PD(J.Spherical(a, b, P0), 1.0, 1.0), "no relative coordinate"),
        (lambda m, a, b: F.PD(J.Cylindrical(a, b, P0, P1), 1.0, 1.0), "name one of them"),
        (lambda m, a, b: F.Potential((a, b), lambda t, p: t * p[0].x[0]), "time_dependent=True"),
        (lambda m, a, b: F.Potential((a, a), lambda t, p: p[0].x[0]), "twice"),
        (lambda m, a, b: F.Load((a, b), lambda t, p, w: [(p[0].x, p[0].x)]), "for each of 2 bodies"),
        (
            lambda m, a, b: F.Load(a, lambda t, p, w: (p[0].x, p[0].x)),
            r"\[\(torque, force\)\]; it returns a tuple of 2",
        ),
        (lambda m, a, b: F.Load(3, lambda t, p, w: []), "`nodes` must be a list"),
        (lambda m, a, b: F.Potential(a, lambda t, p: float(p[0].x[0])), "`function` of Potential can't be traced"),
        (lambda m, a, b: F.PointForce(a, lambda t: np.array([np.sin(t), 0, 0])), "`force` of PointForce.*jax.numpy"),
        (lambda m, a, b: F.PointForce(a, lambda: 0.0), "`force` of PointForce can't be evaluated: TypeError"),
        (lambda m, a, b: F.PointForce(a, lambda t: [t, t, t]), r"it returns a list of 3: \(a number"),
        (lambda m, a, b: F.PointForce(m.add_coordinate(), (1, 0, 0)), "single coordinate"),
        (lambda m, a, b: F.Torque(None, (1, 0, 0)), "`body` of Torque must be a body"),
        (lambda m, a, b: F.PD(a, 1.0, 1.0), "`joint` of PD must be a joint with a free coordinate"),
    ],
)
def test_invalid_data_are_refused_at_once(make: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        make(*bodies())
