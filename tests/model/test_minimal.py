"""Joint coordinates against absolute ones: the same accelerations, energies and motions."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from jaxtyping import Array

import polhode as ph
from polhode.linalg.blocks import to_dense
from polhode.multibody.coordinates.tree.coordinates import JointTree
from polhode.systems.mechanical import AbstractMechanical

INERTIA = np.array([[0.3, 0.02, -0.03], [0.02, 0.5, 0.04], [-0.03, 0.04, 0.6]])


class Builder:
    """Hangs bodies on a tree with velocities that fit the joints."""

    def __init__(self) -> None:
        self.model = ph.Model(gravity=(0.3, -0.2, -9.81))
        self.spins = {"ground": np.zeros(3)}
        self.velocities = {"ground": (np.zeros(3), np.zeros(3))}
        self.number = 0

    def hang(
        self, parent: Any, joint: str, spin: Any = (0, 0, 0), slip: Any = (0, 0, 0), reverse: bool = False, **how: Any
    ) -> Any:
        """A body whose joint turns with `spin` and slides with `slip` on its parent, both inertial."""
        self.number += 1
        k = self.number
        point = np.array([0.4 * k, 0.3 * (-1) ** k, -0.2 * k])
        place = point + np.array([0.3, -0.1 * k, 0.2])
        rotation = np.asarray(ph.rotation_vector(np.array([0.4, -0.7, 0.2 * k])))
        total = self.spins[parent.name] + np.asarray(spin, dtype=float)
        base, origin = self.velocities[parent.name]
        at = base + np.cross(self.spins[parent.name], point - origin) + np.asarray(slip, dtype=float)
        velocity = at + np.cross(total, place - point)
        body = self.model.add_body(
            mass=1 + 0.3 * k, inertia=INERTIA * (1 + 0.2 * k), position=place, rotation=rotation,
            velocity=velocity, angular_velocity=rotation.T @ total, name=f"{joint}-body-{k}",
        )  # fmt: skip
        self.spins[body.name], self.velocities[body.name] = total, (velocity, place)
        ends = (body, parent) if reverse else (parent, body)
        where = {} if joint in ("Prismatic", "Planar", "Fixed") else {"point": point}
        self.model.add(getattr(ph.joints, joint)(*ends, **where, **how))
        return body


def tree() -> ph.Model:
    """Every joint that can carry a body, some of them reversed, a branch, and a body and a point left free."""
    make = Builder()
    z = np.array([0.0, 0.6, 0.8])
    first = make.hang(make.model.ground, "Revolute", spin=1.3 * z, axis=z)
    ball = make.hang(first, "Spherical", spin=(0.7, -1.1, 2.0))
    slider = make.hang(ball, "Prismatic", slip=(0.5, 0, 0), axis=(1, 0, 0))
    make.hang(slider, "Cylindrical", spin=-0.9 * z, slip=0.4 * z, axis=z, reverse=True)
    cross = make.hang(first, "Universal", spin=(0.8, 0, -0.5), first_axis=(1, 0, 0), second_axis=(0, 0, 1))
    plane = make.hang(cross, "Planar", spin=(0, 1.2, 0), slip=(0.3, 0, -0.2), normal=(0, 1, 0))
    make.hang(plane, "Fixed")
    make.hang(plane, "Revolute", spin=0.7 * z, axis=z, reverse=True)
    make.hang(ball, "Screw", spin=0.9 * z, slip=0.9 * 0.2 * z, axis=z, lead=2 * np.pi * 0.2, reverse=True)
    make.model.add_body(
        mass=0.8, inertia=INERTIA, position=(1, 2, 3), rotation=ph.rotation_vector((0.2, 0.6, -1.4)),
        velocity=(0.4, 0.5, -0.6), angular_velocity=(3, -2, 1), name="free",
    )  # fmt: skip
    make.model.add_point(mass=0.5, position=(3, 2, 1), velocity=(0.1, 0.2, 0.3))
    return make.model


def describe(assembled: Any, names: tuple[str, ...]) -> Any:
    """Poses, twists, accelerations and energies, compiled as one program."""

    def evaluate(system: Any, q: Any, v: Array) -> Any:
        t = jnp.asarray(0.0)
        M, B = to_dense(system.mass(t, q), (system.n,) * 2), to_dense(system.jacobian(t, q), (system.m, system.n))
        matrix = jnp.block([[M, B.T], [B, jnp.zeros((system.m, system.m))]])
        right = jnp.concatenate((system.force(t, q, v), -system.curvature(t, q, v)))
        vdot = jnp.linalg.solve(matrix, right)[: system.n]
        flow = lambda s: system.configuration.move(q, s * system.kinematics(q, v))  # noqa: E731
        poses = lambda s: [system.pose(flow(s), name) for name in names]  # noqa: E731
        twists = lambda s: [system.twist(flow(s), v + s * vdot, name) for name in names]  # noqa: E731
        zero, one = (jnp.zeros(()),), (jnp.ones(()),)
        at, rate = jax.jvp(poses, zero, one)
        twist, acceleration = jax.jvp(twists, zero, one)
        energies = system.kinetic_energy(t, q, v), system.potential_energy(t, q)
        return {"pose": at, "rate": rate, "twist": twist, "acceleration": acceleration, "energy": energies}, M

    system, (q, v) = assembled
    return jax.tree.map(np.asarray, evaluated(evaluate, system, q, v))


@pytest.mark.exhaustive
def test_every_joint_moves_its_body_as_the_constraint_does():
    model = tree()
    names = tuple(body.name for body in model.bodies)
    known, _ = describe(model.assemble("SO3xR3"), names)
    found, M = describe(model.assemble("minimal"), names)
    assert M.shape == (1 + 3 + 1 + 2 + 2 + 3 + 0 + 1 + 1 + 6 + 3,) * 2
    assert np.all(np.linalg.eigvalsh(M) > 0)
    for what in known:
        for name, one, other in zip(names, found[what], known[what], strict=False):
            for a, b in zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-10, atol=1e-10, err_msg=f"{what} of {name}")


def test_a_pendulum_in_joint_coordinates_is_the_pendulum_of_the_textbook():
    model = ph.Model(gravity=(0, 0, -9.81))
    rod = model.add_body(mass=2.0, inertia=(0.1, 0.2, 0.3), position=(0.5, 0, 0))
    model.add(ph.joints.Revolute(model.ground, rod, point=(0, 0, 0), axis=(0, 1, 0), name="hinge"))
    system, (q, v) = model.assemble("minimal")
    inertia, moment = 0.2 + 2 * 0.25, 2 * 9.81 * 0.5
    np.testing.assert_allclose(to_dense(system.mass(jnp.zeros(()), q), (1, 1)), [[inertia]], rtol=1e-14)
    np.testing.assert_allclose(system.force(jnp.zeros(()), (jnp.array([0.4]),), v), [moment * np.cos(0.4)], rtol=1e-14)
    run = ph.simulate(system, "rkmk4", h=1e-3, t1=0.4, state0=(q, v), save_every=None)
    angle, rate = run.state[0][0][-1, 0], run.state[1][-1, 0]
    np.testing.assert_allclose(0.5 * inertia * rate**2, moment * np.sin(angle), rtol=1e-9)
    assert abs(rate) > 1
    assert isinstance(system.coordinates, JointTree)
    np.testing.assert_allclose(system.coordinates.of_joint(q, "hinge"), [0.0])


@pytest.fixture(scope="module")
def controlled() -> ph.Model:
    """Two hinged bodies with a controller and a spring."""
    make = Builder()
    z = np.array([0.0, 0.6, 0.8])
    first = make.hang(make.model.ground, "Revolute", spin=1.3 * z, axis=z)
    second = make.hang(first, "Universal", spin=(0.8, 0, -0.5), first_axis=(1, 0, 0), second_axis=(0, 0, 1))
    hinge: Any = make.model.parts[0][1]
    make.model.add(ph.forces.PD(hinge, proportional=40.0, derivative=3.0, target=0.2))
    make.model.add(
        ph.forces.SpringDamper(
            first, second, first_point=(0.1, 0.2, 0.3), second_point=(1.0, 1.5, 0.5), stiffness=30.0, damping=2.0
        )
    )
    return make.model


def test_forces_of_elements_reach_the_joints(controlled):
    names = tuple(body.name for body in controlled.bodies)
    known, _ = describe(controlled.assemble("SO3xR3"), names)
    found, _ = describe(controlled.assemble("minimal"), names)
    np.testing.assert_allclose(_flat(found), _flat(known), rtol=1e-10, atol=1e-10)


def tangents(system: Any, q: Any, v: Array) -> tuple[tuple[Array, Array], ...]:
    """K at rest and C, each beside that of automatic differentiation."""

    def evaluate(system: Any, q: Any, v: Array) -> Any:
        t, square, plain = jnp.asarray(0.0), (system.n,) * 2, AbstractMechanical
        still: Any = jnp.zeros_like(v)
        return (
            (to_dense(system.stiffness(t, q, still), square), to_dense(plain.stiffness(system, t, q, still), square)),
            (to_dense(system.damping(t, q, v), square), to_dense(plain.damping(system, t, q, v), square)),
        )

    q = system.configuration.move(q, jnp.linspace(-0.6, 0.9, system.n))
    return evaluated(evaluate, system, q, v)


@pytest.mark.exhaustive
def test_the_tangents_of_weight_and_inertia_are_those_of_differentiation():
    system, (q, v) = tree().assemble("minimal")
    for found, plain in tangents(system, q, v):
        assert np.max(np.abs(plain)) > 10
        np.testing.assert_allclose(found, plain, atol=1e-11)


@pytest.mark.exhaustive
def test_the_tangents_of_controllers_and_springs_are_those_of_differentiation(controlled):
    system, (q, v) = controlled.assemble("minimal")
    assert [[place.velocity for place in effort.places] for effort in system.coordinates.efforts] == [[0]]
    for found, plain in tangents(system, q, v):
        np.testing.assert_allclose(found, plain, atol=1e-11)


@pytest.mark.parametrize("reverse", [False, True])
def test_controllers_of_a_tree_count_turns(reverse):
    model = ph.Model()
    body = model.add_body(mass=1.0, inertia=(0.1, 0.2, 0.3), angular_velocity=(0, 0, 0.7))
    ends = (body, model.ground) if reverse else (model.ground, body)
    hinge = ph.joints.Revolute(*ends, point=(0, 0, 0), axis=(0, 0, 1))
    model.add(hinge)
    model.add(ph.forces.PD(hinge, proportional=40.0, derivative=3.0, target=lambda t: 12.7 + 2.0 * t))
    system, (q, v) = model.assemble("minimal")
    # Seen from the body, the ground turns the other way.
    rate = -0.7 if reverse else 0.7
    np.testing.assert_allclose(v, [rate], rtol=1e-14)
    expected = 40 * 12.7 - 3 * (rate - 2.0)
    np.testing.assert_allclose(system.force(jnp.zeros(()), q, v), [expected], rtol=1e-12)
    assert not system.conservative
    assert not system.invariants()


@pytest.mark.exhaustive
def test_loops_stay_as_constraints():
    """A parallelogram of three hinged bars: the tree holds three hinges, the fourth closes the loop."""
    model = ph.Model(gravity=(0, 0, -9.81))
    corners = np.array([[0.0, 0, 0], [0, 0, 1], [2, 0, 1], [2, 0, 0]])
    before, velocity = model.ground, (np.array([0.5, 0, 0]), np.array([1.0, 0, 0]), np.array([0.5, 0, 0]))
    for k in range(3):
        turning = (0.0, 1.0, 0.0) if k != 1 else (0.0, 0.0, 0.0)
        bar = model.add_body(
            mass=1 + k, inertia=(0.1, 0.2, 0.3), position=(corners[k] + corners[k + 1]) / 2, velocity=velocity[k],
            angular_velocity=turning, name=f"bar-{k}",
        )  # fmt: skip
        model.add(ph.joints.Revolute(before, bar, point=corners[k], axis=(0, 1, 0)))
        before = bar
    model.add(ph.joints.Revolute(model.ground, before, point=corners[3], axis=(0, 1, 0), name="closing"))
    with pytest.raises(ValueError, match="closing"):
        model.assemble("minimal")
    system, (q, v) = model.assemble("minimal", redundant="minimum-norm")
    assert (system.n, system.m, set(system.labels)) == (3, 2, {"closing"})
    names = ("bar-0", "bar-1", "bar-2")
    known, _ = describe(model.assemble("SO3xR3", redundant="minimum-norm"), names)
    found, _ = describe((system, (q, v)), names)
    np.testing.assert_allclose(_flat(found), _flat(known), rtol=1e-9, atol=1e-9)


def test_velocities_that_a_joint_forbids_are_refused_by_its_name_or_repaired():
    model = ph.Model()
    body = model.add_body(
        mass=1, inertia=(1, 1, 1), position=(1, 0, 0), velocity=(0, 0.5, 0), angular_velocity=(0, 0, 1)
    )
    model.add(ph.joints.Revolute(model.ground, body, point=(0, 0, 0), axis=(0, 0, 1), name="hinge"))
    with pytest.raises(ValueError, match=r"`hinge`.*0\.5"):
        model.assemble("minimal")
    system, (q, v) = model.assemble("minimal", repair=True)
    assert float(jnp.max(jnp.abs(system.twist(q, v, body).u[jnp.array([0, 2])]))) == 0.0


def _flat(tree: Any) -> np.ndarray:
    return np.concatenate([np.reshape(leaf, -1) for leaf in jax.tree.leaves(tree)])
