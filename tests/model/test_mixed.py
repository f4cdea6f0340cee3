"""Trees in joint coordinates beside rods, particles and other bodies in coordinates of their own."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode.linalg.blocks import pattern, to_dense
from polhode.multibody.coordinates.mixed_coordinates import MixedCoordinates
from polhode.multibody.dynamics import Dynamics
from polhode.multibody.system import MultibodySystem
from polhode.systems.mechanical import AbstractMechanical

SECTION = ph.rods.Section(stiffness=(20.0, 30.0, 10.0, 2e3, 2e3, 5e3), mass=1.5, inertia=(0.02, 0.03, 0.05))
SPIN, DRIFT = np.array([0.3, -0.4, 0.7]), np.array([0.1, 0.2, -0.3])


def moving(x: Any, R: Any = ((1, 0, 0), (0, 1, 0), (0, 0, 1)), extra: Any = (0.0, 0.0, 0.0)) -> dict[str, Any]:
    """Place and velocity of a body that moves with all others, and turns about its own axes besides."""
    velocity, turning = DRIFT + np.cross(SPIN, x), np.asarray(R).T @ SPIN + np.asarray(extra)
    return {"position": x, "rotation": R, "velocity": velocity, "angular_velocity": turning}


def spacecraft(own: str | None = None, loads: bool = True) -> ph.Model:
    """A hub with a wheel and an arm, a rod between them that closes a loop, a point, a body in other coordinates."""
    model = ph.Model(gravity=(0, 0.5, -9.81))
    body = model.add_body
    R = ph.rotation_vector((0.2, -0.3, 0.5))
    hub = body(mass=10.0, inertia=(2.0, 2.5, 3.0), **moving(np.zeros(3), R), name="hub")
    wheel = body(mass=1.0, inertia=(0.02, 0.02, 0.04), **moving(np.array([0, 0.2, 0.1]), R, (0, 0, 30.0)), name="wheel")
    axle = model.add(ph.joints.Revolute(hub, wheel, point=(0, 0.2, 0.1), axis=np.asarray(R)[:, 2], name="axle"))
    arm = body(mass=2.0, inertia=(0.1, 0.2, 0.2), **moving(np.array([1.0, 0, 0.5])), name="arm")
    model.add(ph.joints.Spherical(hub, arm, point=(0.5, 0.1, 0), name="shoulder"))
    tool = body(mass=0.5, inertia=(0.01, 0.02, 0.02), **moving(np.array([1.5, 0, 0.5])), name="tool")
    slide = model.add(ph.joints.Prismatic(arm, tool, axis=(1, 0, 0.2), name="slide"))
    points = [np.array([0.2 * k, 1.0 + 0.1 * k**2, 0.1]) for k in range(4)]
    frames = [np.asarray(node.R) for node in ph.Model().add_rod(points=points, section=SECTION).nodes]
    velocities, turning = [DRIFT + np.cross(SPIN, x) for x in points], [frame.T @ SPIN for frame in frames]
    rod = model.add_rod(points=points, section=SECTION, name="boom", velocity=velocities, angular_velocity=turning)
    model.add(ph.joints.Fixed(hub, rod.first, name="root"))
    model.add(ph.joints.Spherical(arm, rod.last, point=points[-1], name="tip"))
    probe = body(mass=0.3, inertia=(0.01, 0.01, 0.02), **moving(np.array([0, -1.0, 0])), formulation=own, name="probe")
    bead = model.add_point(mass=0.2, position=(0.0, 2.0, 1.0), velocity=DRIFT + np.cross(SPIN, (0.0, 2.0, 1.0)))
    if not loads:
        return model
    spring = ph.forces.SpringDamper
    model.add(spring(wheel, rod.nodes[1], (0.1, 0.2, 0.1), points[1], stiffness=40.0, damping=3.0, length=0.4))
    model.add(spring(tool, bead, (1.5, 0, 0.6), (0.0, 2.0, 1.0), stiffness=15.0, damping=1.0, length=1.0))
    model.add(spring(hub, probe, (0, 0, 0), (0, -1.0, 0.1), stiffness=25.0, damping=0.5, length=0.7))
    model.add(ph.forces.PointForce(tool, (0, 1.0, 2.0), point=(1.6, 0, 0.5)))
    model.add(ph.forces.JointSpring(slide, stiffness=30.0, damping=0.2, rest=0.1))
    model.add(
        ph.forces.JointControl([axle, slide], lambda t, s, r: jnp.array([0.3, -0.1]) * r + s[::-1], name="motors")
    )
    return model


def accelerations(system: Any, state: Any) -> dict[str, Any]:
    """Angular and linear acceleration of all bodies."""
    q, v = state
    zero = jnp.zeros(())
    vdot, _ = system.accelerations(zero, q, v)

    def twists(s: Any) -> Any:
        return system.motion(system.flow(q, v, s), v + s * vdot).twists

    omega, u = jax.jvp(twists, (zero,), (jnp.ones(()),))[1]
    return {name: jnp.concatenate((omega[k], u[k])) for k, name in enumerate(system.names)}


@pytest.mark.exhaustive
@pytest.mark.parametrize("own", ["SE3", pytest.param("euler-parameters", marks=pytest.mark.exhaustive)])
def test_bodies_accelerate_as_in_absolute_coordinates(own):
    found, expected = (
        evaluated(accelerations, *spacecraft(own).assemble(formulation)) for formulation in ("minimal", "SO3xR3")
    )
    assert found.keys() == expected.keys()
    size = max(np.max(np.abs(value)) for value in expected.values())
    assert size > 10
    for name, value in expected.items():
        np.testing.assert_allclose(found[name], value, atol=1e-10 * size, err_msg=name)


def derivatives(system: Any, state: Any) -> list[tuple[Any, Any]]:
    """Matrices as the coordinates have them, and by differentiation: at rest, where inertia has no stiffness."""
    (q, v), t = state, jnp.zeros(())
    rest, multipliers = jnp.zeros(system.n), jnp.cos(jnp.arange(1.0, system.m + 1))
    whole: Any = AbstractMechanical
    pairs = [
        (system.jacobian(t, q), whole.jacobian(system, t, q), (system.m, system.n)),
        (system.stiffness(t, q, rest), whole.stiffness(system, t, q, rest), (system.n, system.n)),
        (system.damping(t, q, v), whole.damping(system, t, q, v), (system.n, system.n)),
        (
            system.geometric_stiffness(t, q, multipliers),
            whole.geometric_stiffness(system, t, q, multipliers),
            (system.n, system.n),
        ),
    ]
    return [(to_dense(own, shape), to_dense(other, shape)) for own, other, shape in pairs]


@pytest.mark.exhaustive
def test_derivatives_are_those_of_forces_and_constraints():
    system, state = spacecraft("SE3").assemble("minimal")
    for own, other in evaluated(derivatives, system, state):
        size = np.max(np.abs(other))
        assert size > 1
        np.testing.assert_allclose(own, other, atol=1e-11 * size)


@pytest.mark.exhaustive
def test_an_outline_has_the_places_of_all_blocks():
    system, (q, v) = spacecraft("SE3").assemble("minimal")
    assert isinstance(system, MultibodySystem)
    coordinates, mechanism, t = system.coordinates, system.mechanism, jnp.zeros(())
    assert isinstance(coordinates, MixedCoordinates)
    found = jax.eval_shape(
        lambda q, v: (
            coordinates.mass(q) + coordinates.damping(mechanism, t, q, v) + coordinates.stiffness(mechanism, t, q, v),
            coordinates.jacobian(mechanism, t, q),
        ),
        q,
        v,
    )
    for outline, matrix in zip(coordinates.outline(mechanism), found, strict=True):
        assert {*pattern(outline)} == {*pattern(matrix)}


@pytest.mark.exhaustive
def test_without_loads_inertia_and_gravity_are_left():
    loaded, unloaded = (Dynamics(model.assemble("minimal")[0]) for model in (spacecraft(), spacecraft(loads=False)))
    _, (q, v) = spacecraft().assemble("minimal")
    force = lambda system: lambda q, v: system.force(jnp.zeros(()), q, v)  # noqa: E731
    # The rod has no elastic forces either.
    found, expected = (evaluated(force(of.without_loads().system), q, v) for of in (loaded, unloaded))
    assert not unloaded.system.coordinates.has_own_loads
    np.testing.assert_allclose(found, expected, atol=1e-12)
