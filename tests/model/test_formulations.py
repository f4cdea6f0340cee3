"""One mechanism in all coordinates for bodies: the same accelerations, multipliers and tangents."""

from __future__ import annotations

import dataclasses
import functools
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from jaxtyping import Array

import polhode as ph
from polhode.linalg.blocks import to_dense
from polhode.multibody import formulations
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists, Wrench
from polhode.multibody.parts import AbstractForce
from polhode.spaces.base import hat
from polhode.systems.mechanical import AbstractMechanical

FEW = ("SO3xR3", "SE3", "euler-angles", "euler-parameters")
NAMES = tuple(n if n in FEW else pytest.param(n, marks=pytest.mark.exhaustive) for n in formulations.FORMULATIONS)
BODIES = ("upper", "lower", "free")
INERTIA = np.array([[0.3, 0.02, -0.03], [0.02, 0.5, 0.04], [-0.03, 0.04, 0.6]])


class MixedLoad(AbstractForceElement):
    """A force that depends on everything: places, attitudes, velocities and time."""

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    stiffness: Array

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        (x0, R0), (x1, R1) = poses
        pull = self.stiffness * (x1 - x0) + 0.3 * (twists[1].u - twists[0].u) + jnp.sin(t) * (R0[:, 1] + R1[:, 2])
        twist = 2.0 * jnp.cross(R0[:, 0], R1[:, 1]) + 0.2 * (R1 @ twists[1].omega - R0 @ twists[0].omega)
        return Wrench(R0.T @ twist, pull), Wrench(-R1.T @ twist, -pull)


@dataclasses.dataclass(frozen=True, eq=False)
class Mixed(AbstractForce):
    first: Body
    second: Body
    name: str | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second

    def place(self, poses: Poses) -> MixedLoad:
        return MixedLoad(jnp.array(7.0))


def mechanism() -> ph.Model:
    """A pendulum of two bodies on spherical joints, and a free body that pulls at the lower one."""
    model = ph.Model(gravity=(0.3, -0.2, -9.81))
    points = np.array([[0.1, 0.2, 0.3], [0.6, 0.5, -0.4]])
    rotations = [np.asarray(ph.rotation_vector(r)) for r in ([0.4, -0.7, 0.2], [-0.5, 0.3, 1.1], [0.2, 0.6, -1.4])]
    places = np.array([[0.3, 0.4, -0.1], [0.9, 0.3, -0.8], [1.7, -0.4, 0.2]])
    omegas = np.array([[0.7, -1.1, 2.0], [-0.4, 1.5, 0.3], [3.0, -2.0, 1.0]])
    still = np.zeros(3)
    at_hinge = still
    ends = [model.ground]
    for k in range(2):
        spin = rotations[k] @ omegas[k]
        velocity = at_hinge + np.cross(spin, places[k] - points[k])
        body = model.add_body(
            mass=1.3 + k, inertia=INERTIA * (1 + k), position=places[k], rotation=rotations[k],
            velocity=velocity, angular_velocity=omegas[k], name=BODIES[k],
        )  # fmt: skip
        model.add(ph.joints.Spherical(ends[-1], body, point=points[k]))
        ends.append(body)
        at_hinge = velocity + np.cross(spin, points[1] - places[k])
    free = model.add_body(
        mass=0.8, inertia=INERTIA, position=places[2], rotation=rotations[2], velocity=(0.4, 0.5, -0.6),
        angular_velocity=omegas[2], name="free",
    )  # fmt: skip
    model.add(Mixed(ends[2], free))
    return model


def describe(system: Any, q: Any, v: Array) -> dict[str, Any]:
    """Everything that is compared, in one program."""
    t = jnp.asarray(0.7)
    square, wide = (system.n, system.n), (system.m, system.n)
    M, B = to_dense(system.mass(t, q), square), to_dense(system.jacobian(t, q), wide)
    matrix = jnp.block([[M, B.T], [B, jnp.zeros((system.m, system.m))]])
    solved = jnp.linalg.solve(matrix, jnp.concatenate((system.force(t, q, v), -system.curvature(t, q, v))))
    vdot, nu = solved[: system.n], system.kinematics(q, v)
    twists = lambda s: jnp.concatenate(  # noqa: E731
        [jnp.concatenate(system.twist(system.configuration.move(q, s * nu), v + s * vdot, b)) for b in BODIES]
    )
    return {
        "places": [(system.pose(q, b), system.twist(q, v, b)) for b in BODIES],
        "constraint": (system.constraint(t, q), system.constraint_rate(t, q, v)),
        "rates": jax.jvp(twists, (jnp.zeros(()),), (jnp.ones(()),))[1],
        "multipliers": solved[system.n :],
        "kinetic": (system.kinetic_energy(t, q, v), 0.5 * v @ M @ v),
        "solved": system.accelerations(t, q, v),
        "velocities": vdot,
    }  # fmt: skip


def tangents(system: Any, q: Any, v: Array) -> dict[str, Any]:
    """Tangents of the system, and those of automatic differentiation."""
    t = jnp.asarray(0.7)
    square, wide = (system.n, system.n), (system.m, system.n)
    # Velocities of unit twists: every direction that the norms of Euler parameters allow.
    allowed = [jax.vmap(lambda w, g=g, p=p: _from_vector(g, p, w))(jnp.eye(6)).T for g, p in _bodies(system, q)]
    allowed = jax.scipy.linalg.block_diag(*allowed)
    other = v + allowed @ jnp.linspace(1.0, 2.0, allowed.shape[1])
    plain: Any = AbstractMechanical
    return {
        "constraint_rate": (system.constraint_rate(t, q, other), plain.constraint_rate(system, t, q, other)),
        "jacobian": (
            to_dense(system.jacobian(t, q), wide) @ allowed,
            to_dense(plain.jacobian(system, t, q), wide) @ allowed,
        ),
        "stiffness": (to_dense(system.stiffness(t, q, v), square), to_dense(plain.stiffness(system, t, q, v), square)),
        "damping": (to_dense(system.damping(t, q, v), square), to_dense(plain.damping(system, t, q, v), square)),
    }


def _bodies(system: Any, q: Any) -> list[tuple[Any, Any]]:
    """Formulation and coordinates of every body, in the order of the velocities."""
    return [
        (group.formulation, jax.tree.map(lambda a, k=k: a[k], points))
        for group, points in zip(system.coordinates.bodies, q, strict=True)
        for k in range(group.count)
    ]


def _from_vector(form: Any, point: Any, twist: Array) -> Array:
    return form.from_twist(point, Twist(twist[:3], twist[3:]))


@functools.cache
def assemble_in(name: str) -> tuple[Any, Any]:
    return mechanism().assemble(name)


@functools.cache
def description(name: str) -> dict[str, Any]:
    system, (q, v) = assemble_in(name)
    return jax.tree.map(np.asarray, evaluated(describe, system, q, v))


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_bodies_are_where_the_model_puts_them_and_move_as_it_says(name):
    found = description(name)
    for body, (pose, twist) in zip(mechanism().bodies, found["places"], strict=True):
        np.testing.assert_allclose(pose.x, body.x, atol=1e-14)
        np.testing.assert_allclose(pose.R, body.R, atol=1e-14)
        np.testing.assert_allclose(twist.omega, body.omega, atol=1e-13)
        np.testing.assert_allclose(twist.u, body.u, atol=1e-13)
    assert np.max(np.abs(found["constraint"][0])) < 1e-14
    assert np.max(np.abs(found["constraint"][1])) < 1e-13


@pytest.mark.sampled(6)
@pytest.mark.parametrize("name", NAMES)
def test_accelerations_multipliers_and_energy_do_not_depend_on_coordinates(name):
    found, known = description(name), description("SO3xR3")
    np.testing.assert_allclose(found["rates"], known["rates"], rtol=1e-11, atol=1e-11)
    np.testing.assert_allclose(found["multipliers"][:6], known["multipliers"], rtol=1e-11, atol=1e-11)
    # The mass matrix and the energy are formed apart.
    np.testing.assert_allclose(found["kinetic"], known["kinetic"][0], rtol=1e-13)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", NAMES)
def test_the_solver_of_the_system_gives_the_same_accelerations(name):
    """It eliminates velocities first, so every mass matrix must be regular, that of Euler parameters too."""
    found = description(name)
    np.testing.assert_allclose(found["solved"][0], found["velocities"], rtol=1e-10, atol=1e-10)


@pytest.mark.sampled(8)
@pytest.mark.parametrize("name", NAMES)
def test_tangents_of_the_system_equal_automatic_differentiation(name):
    system, (q, v) = assemble_in(name)
    for part, (found, expected) in evaluated(tangents, system, q, v).items():
        assert np.max(np.abs(expected)) > 0.1
        np.testing.assert_allclose(found, expected, atol=1e-11, err_msg=part)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", NAMES)
def test_closed_forms_equal_those_of_the_base_class(name):
    """What a formulation overrides is what differentiating its pose and twist gives; the pose moves with the twist."""
    body = mechanism().bodies[1]
    twist = Twist(body.omega, body.u)
    form, base = formulations.get(name), formulations.AbstractFormulation
    wrench = Wrench(jnp.array([0.4, -0.3, 1.2]), jnp.array([2.0, 1.0, -3.0]))
    data = (body.mass, body.inertia)
    q = form.from_pose(Pose(body.x, body.R))
    parts = ("jacobian", "bias", "mass", "force", "stiffness", "damping", "pull_back")

    def evaluate(q: Any) -> Any:
        v = form.from_twist(q, twist)
        loads = (q, v, wrench, *data)
        given = ((q,), (q, v), (q, *data), loads, loads, loads, (q, jnp.concatenate(wrench)))
        found = [getattr(form, part)(*arguments) for part, arguments in zip(parts, given, strict=True)]
        expected = [getattr(base, part)(form, *arguments) for part, arguments in zip(parts, given, strict=True)]
        # Of the inertia, what moves with the body.
        moves = jnp.stack([form.from_twist(q, Twist(e[:3], e[3:])) for e in jnp.eye(6)], axis=1)
        found[2], expected[2] = moves.T @ found[2] @ moves, moves.T @ expected[2] @ moves
        motion = lambda s: form.pose(form.space.move(q, s * form.kinematics(q, v)))  # noqa: E731
        return found, expected, jax.jvp(motion, (jnp.zeros(()),), (jnp.ones(()),))[1]

    found, expected, rate = evaluated(evaluate, q)
    np.testing.assert_allclose(rate.x, body.u, atol=1e-13)
    np.testing.assert_allclose(rate.R, body.R @ hat(body.omega), atol=1e-13)
    for part, one, other in zip(parts, found, expected, strict=True):
        none = jnp.eye(6) if part == "jacobian" else jnp.zeros_like(other)
        np.testing.assert_allclose(none if one is None else one, other, atol=1e-12, err_msg=part)


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["herk3", "herk4"])
def test_half_explicit_methods_take_euler_parameters(name):
    """The free body of the rotation group, which every method of the family has to follow at its order."""

    def end(formulation, method, h):
        model = ph.Model()
        body = model.add_body(mass=1.0, inertia=(1.0, 2.0, 2.5), angular_velocity=(0.3, 2.0, 0.1))
        system, state0 = model.assemble(formulation)
        run = ph.simulate(system, method, h=h, t1=1.0, state0=state0, save_every=None)
        return system.pose(jax.tree.map(lambda a: a[-1], run.state[0]), body).R

    exact = end("SO3xR3", "rkmk4", 1 / 512)
    errors = [float(jnp.max(jnp.abs(end("euler-parameters", name, h) - exact))) for h in (1 / 16, 1 / 32)]
    order = ph.integrators.get(name).order
    assert abs(np.log2(errors[0] / errors[1]) - order) < 0.5


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", ["euler-angles", "euler-angles-kinematic"])
def test_an_unconstrained_body_in_angles_converges_to_the_motion_on_the_group(name):
    def end(name, h):
        model = ph.Model(gravity=(0, 0, -9.81))
        body = model.add_body(
            mass=2.0, inertia=INERTIA, rotation=ph.rotation_vector((0.2, 0.3, -0.1)), angular_velocity=(1.0, 0.5, -2.0)
        )
        system, state0 = model.assemble(name)
        run = ph.simulate(system, "rkmk4", h=h, t1=0.5, state0=state0, save_every=None)
        q = jax.tree.map(lambda a: a[-1], run.state[0])
        return system.pose(q, body).R

    exact = end("SO3xR3", 1 / 512)
    errors = [float(jnp.max(jnp.abs(end(name, h) - exact))) for h in (1 / 16, 1 / 32)]
    assert 3.5 < np.log2(errors[0] / errors[1]) < 4.8
    assert errors[1] < 1e-5


def test_angles_refuse_to_start_at_gimbal_lock():
    model = ph.Model()
    model.add_body(mass=1, inertia=(1, 1, 1), rotation=ph.rotation_vector((0, np.pi / 2, 0)))
    for name in ("euler-angles", "euler-angles-kinematic"):
        with pytest.raises(ValueError, match="gimbal"):
            model.assemble(name)
    model.assemble("euler-parameters")
