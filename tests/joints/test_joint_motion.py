"""A joint says itself which motion it allows: its name doesn't matter, and what it says is checked."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from compiling import evaluated

import polhode as ph
from polhode.joints import AbstractPairJoint, Spherical
from polhode.multibody.coordinates.tree.motions import AxisMotion, BallMotion
from polhode.multibody.mechanism.poses import Pose

POINT, AXIS = (0.0, 0.0, 0.0), (0.0, 1.0, 0.0)


class Knee(ph.joints.Revolute):
    """A hinge by another name."""


@dataclasses.dataclass(frozen=True, eq=False)
class Prismatic(ph.joints.Revolute):
    """A hinge by the name of a slider, with data of its own."""

    stiffness: float = 1.0


class ShiftedJoint(ph.joints.Revolute):
    """A hinge with a constraint of its own, of which the motion of hinges says nothing."""

    def place(self, poses):
        return Spherical(self.first, self.second, self.point).place(poses)


@dataclasses.dataclass(frozen=True, eq=False)
class Revolute(AbstractPairJoint):
    """A user's spherical joint by the name of a hinge."""

    point: Any
    name: str | None = None

    def place(self, poses):
        return Spherical(self.first, self.second, self.point).place(poses)


class Ball(Revolute):
    """The same, which says what it allows."""

    def motion(self, carried):
        return BallMotion(Pose(jnp.zeros(3), carried.R))


class Stiff(Knee):
    """A hinge that is to stay a constraint."""

    def motion(self, carried):
        return None


def hung(joint, *data, swapped=False):
    """A body on the ground by a joint, with a velocity that a hinge allows as well."""
    model = ph.Model(gravity=(0.3, 0.2, -9.81))
    body = model.add_body(
        mass=1.3, inertia=(0.1, 0.2, 0.3), position=(0.5, 0, 0), velocity=(0, 0, -1), angular_velocity=(0, 2, 0)
    )
    ends = (body, model.ground) if swapped else (model.ground, body)
    model.add(joint(*ends, *data))
    return model


def accelerations(model, formulation="minimal"):
    """Angular acceleration and acceleration of the body at the start: how its twist changes along the motion."""
    system, (q, v) = model.assemble(formulation)

    def rates():
        a = system.accelerations(jnp.zeros(()), q, v)[0]

        def twist(s):
            return jnp.concatenate(system.twist(system.flow(q, v, s), v + s * a, "body-1"))

        return jax.jvp(twist, (jnp.zeros(()),), (jnp.ones(()),))[1]

    return system, np.asarray(evaluated(rates))


@pytest.mark.parametrize("kind", [Knee, Prismatic])
@pytest.mark.parametrize("swapped", [False, True])
def test_a_subclass_of_a_hinge_carries_its_body_as_a_hinge_does(kind, swapped):
    system, result = accelerations(hung(kind, POINT, AXIS, swapped=swapped))
    assert (system.n, system.m) == (1, 0)
    _, expected = accelerations(hung(ph.joints.Revolute, POINT, AXIS, swapped=swapped))
    np.testing.assert_allclose(result, expected, atol=1e-12)
    # A rod of this inertia about the hinge falls by its weight.
    fall = 1.3 * 9.81 * 0.5 / (0.2 + 1.3 * 0.5**2)
    np.testing.assert_allclose(result[:3], (0, fall, 0), atol=1e-9)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("kind", "data", "sizes"), [(Revolute, (), (6, 3)), (Ball, (), (3, 0)), (ShiftedJoint, (AXIS,), (6, 3))]
)
def test_a_spherical_joint_by_any_name_is_one(kind, data, sizes):
    system, result = accelerations(hung(kind, POINT, *data))
    assert (system.n, system.m) == sizes
    other, expected = accelerations(hung(Spherical, POINT))
    assert (other.n, other.m) == (3, 0)
    np.testing.assert_allclose(result, expected, atol=1e-9)
    # The side wind turns it about the vertical too, which a hinge wouldn't allow.
    assert expected[2] == pytest.approx(1.3 * 0.2 * 0.5 / (0.3 + 1.3 * 0.5**2), abs=1e-9)


def test_a_joint_may_stay_a_constraint():
    system, result = accelerations(hung(Stiff, POINT, AXIS))
    assert (system.n, system.m) == (6, 5)
    _, expected = accelerations(hung(Knee, POINT, AXIS))
    np.testing.assert_allclose(result, expected, atol=1e-9)


def wrong(what):
    """A hinge that says something else of its motion."""

    class Wrong(ph.joints.Revolute):
        def place(self, poses):
            return super().place(poses)

        def motion(self, carried):
            return what(super().motion(carried))

    return Wrong


def with_other_axes(motion):
    return AxisMotion(Pose(motion.initial.x, jnp.eye(3)), True, ())


def with_other_point(motion):
    return AxisMotion(Pose(motion.initial.x + 0.1, motion.initial.R), True, ())


def slid(motion):
    return AxisMotion(motion.initial, False, (2,))


def as_screw(motion):
    return AxisMotion(motion.initial, True, (2,))


def as_fixed(motion):
    return AxisMotion(motion.initial, False, ())


@pytest.mark.parametrize("swapped", [False, True])
@pytest.mark.parametrize(
    ("what", "message"),
    [
        (with_other_axes, r"leads off its constraint, by \d.* after a motion of 0.3. Correct it, or return None"),
        (with_other_point, "leads off its constraint, by"),
        (slid, "leads off its constraint, by"),
        (as_screw, "has 2 degrees of freedom and its constraint leaves 1; they must be the same"),
        (as_fixed, "has 0 degrees of freedom and its constraint leaves 1"),
    ],
)
def test_a_wrong_motion_is_refused(what, message, swapped):
    model = hung(wrong(what), POINT, AXIS, swapped=swapped)
    with pytest.raises(ValueError, match=f"`motion` of Wrong {message}"):
        model.assemble("minimal")
    # Where nothing is made of it, it does no harm.
    system, _ = model.assemble("SE3")
    assert (system.n, system.m) == (6, 5)
    right, _ = hung(wrong(lambda motion: motion), POINT, AXIS, swapped=swapped).assemble("minimal")
    assert (right.n, right.m) == (1, 0)


def test_a_driven_joint_carries_nothing():
    class Driven(ph.joints.PrescribedRotation):
        def motion(self, carried):
            return AxisMotion(Pose(jnp.zeros(3), jnp.eye(3)), True, ())

    with pytest.raises(ValueError, match="`motion` of Driven must be None: its constraint depends on time"):
        hung(Driven, AXIS, lambda t: 2.0 * t).assemble("minimal")
