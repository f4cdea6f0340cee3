"""Prescribed motion: closed by the motion that is told, however far it goes, and by no other."""

from __future__ import annotations

import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated
from joint_table import AXIS, CASES, FRAME, POINT, START, Case, displaced_poses, turn, two_bodies

import polhode as ph
from polhode.multibody.mechanism.poses import Pose

J = ph.joints


def angle(t):
    return 40.0 * t + t**2


def about_z(t):
    c, s = jnp.cos(angle(t)), jnp.sin(angle(t))
    return jnp.array([[c, -s, 0.0], [s, c, 0.0], [0.0, 0.0, 1.0]])


def shift(t):
    return jnp.stack((t, t**2, jnp.sin(t)))


MOTIONS = {
    "rotation": (
        lambda a, b: J.PrescribedRotation(a, b, AXIS, angle),
        lambda t: Case(CASES["revolute"].make, 1, lambda s: (np.zeros(3), turn(0, 0, angle(t)))),
    ),
    "translation": (
        lambda a, b: J.PrescribedTranslation(a, b, AXIS, angle, POINT),
        lambda t: Case(CASES["prismatic"].make, 1, lambda s: (np.array([0, 0, angle(t)]), np.eye(3))),
    ),
    "motion": (
        lambda a, b: J.PrescribedMotion(a, b, POINT, shift, about_z, axes=FRAME),
        lambda t: Case(CASES["fixed"].make, 6, lambda s: (np.asarray(shift(t)), turn(0, 0, angle(t)))),
    ),
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", MOTIONS)
def test_prescribed_motions_close_the_joint_after_many_turns(name: str) -> None:
    make, allowed = MOTIONS[name]
    _, first, second = two_bodies()
    element = make(first, second).place((Pose(first.x, first.R), Pose(second.x, second.R)))
    rigid = (np.array([0.3, -0.2, 0.5]), turn(0.4, 0.1, -0.3))
    for t in (0.0, 0.37, 5.0):
        poses = displaced_poses(allowed(t), np.zeros(6), rigid)
        assert element.size == allowed(t).size
        assert np.abs(element.residual(jnp.asarray(t), poses)).max() < 1e-12
        assert np.abs(element.residual(jnp.asarray(t + 0.02), poses)).max() > 1e-2


@pytest.mark.exhaustive
def test_a_prescribed_pose_is_that_of_the_body() -> None:
    model, body, _ = two_bodies()
    joint = J.PrescribedPose(model.ground, body, shift, about_z)
    ground = Pose(jnp.zeros(3), jnp.eye(3))
    t = jnp.asarray(1.3)
    element = joint.place((ground, Pose(body.x, body.R)))
    np.testing.assert_allclose(element.residual(t, (ground, Pose(shift(t), about_z(t)))), np.zeros(6), atol=1e-15)
    assert np.abs(element.residual(t, (ground, Pose(*map(jnp.asarray, START[0]))))).max() > 0.1


def test_a_driven_crank_accelerates_as_prescribed() -> None:
    def accelerations(speed):
        model = ph.Model((0, 0, -9.81))
        crank = model.add_body(
            mass=1, inertia=(1, 1, 1), position=(1, 0, 0), velocity=(0, speed, 0), angular_velocity=(0, 0, speed)
        )
        model.add(J.Revolute(model.ground, crank, (0, 0, 0), (0, 0, 1)))
        model.add(J.PrescribedRotation(model.ground, crank, (0, 0, 1), angle))
        system, (q, v) = model.assemble("SO3xR3")
        assert not system.conservative
        return system.accelerations(jnp.zeros(()), q, v)[0]

    result = evaluated(accelerations, 40.0)
    np.testing.assert_allclose(result, [0, 0, 2, -1600, 2, 0], atol=1e-10)


def driven_crank(formulation, offset, repair):
    model = ph.Model()
    crank = model.add_body(mass=1, inertia=(1, 1, 1), position=(0.5, 0, 0))
    hinge = model.add(J.Revolute(model.ground, crank, (0, 0, 0), (0, 0, 1)))
    model.add(J.PrescribedRotation(model.ground, crank, (0, 0, 1), lambda t: offset + t**2, name="drive"))
    system, state = model.assemble(formulation, repair=repair)
    return float(hinge.angle(system, 0.0, state))


@pytest.mark.sampled(4)
@pytest.mark.parametrize(
    ("formulation", "offset"),
    [
        ("SO3xR3", 2.0),
        ("minimal", np.pi),
        ("SO3xR3", np.pi),
        ("minimal", 2.0),
    ],
)
def test_repair_turns_a_crank_to_its_angle_and_not_half_a_turn_further(formulation: str, offset: float) -> None:
    assert np.exp(1j * driven_crank(formulation, offset, repair=True)) == pytest.approx(np.exp(1j * offset), abs=1e-12)


def test_half_a_turn_off_is_reported_with_the_name_of_the_joint() -> None:
    with pytest.raises(ValueError, match=r"wrong way round: `drive` \(cosine -1\)"):
        driven_crank("minimal", np.pi, repair=False)


@pytest.mark.sampled(2)
# Two of the three cosines vanish and change their sign after half a turn, all three after a third about the diagonal.
@pytest.mark.parametrize(("turned", "message"), [((np.pi, 0, 0), "wrong way round"), ((1.2, 1.2, 1.2), "do not fit")])
def test_a_prescribed_pose_is_reached_from_afar(turned: tuple[float, ...], message: str) -> None:
    R = ph.rotation_vector(turned)
    model = ph.Model()
    body = model.add_body(mass=1, inertia=(1, 2, 2.5))
    model.add(J.PrescribedPose(model.ground, body, rotation=lambda t: R, name="drive"))
    with pytest.raises(ValueError, match=f"{message}.*`drive`"):
        model.assemble()
    system, (q, _) = model.assemble(repair=True)
    np.testing.assert_allclose(system.pose(q, body).R, R, atol=1e-10)
