"""Forces along several joint coordinates at once, as a function of all of them."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.joints._frames import initial_pose
from polhode.joints.named_coordinates import AbstractMeasured, Term
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.coordinate_forces import Feedback
from polhode.multibody.mechanism.poses import Poses
from polhode.multibody.mechanism.user_functions import Function, check_shape, result_shapes
from polhode.multibody.parts import AbstractForce


@dataclasses.dataclass(frozen=True, eq=False)
class JointControl(AbstractForce):
    r"""Control of several joints by all their coordinates and rates: forces and torques $\tau = u(t, s, \dot s)$.

    So state feedback, computed torque and couplings of a user's own are written. Angles count turns.

    **Arguments:**

    - `joints`: joints with a free coordinate each, 0 at the start; joints of a file, with the file's zero; or
      combinations of such.
    - `control`: function of t and of arrays s, ṡ of shape (n,) that returns τ of that shape. Written with `jax.numpy`;
      numbers in fields of an `equinox.Module` can be differentiated with respect to.
    - `name`: for messages.

    Raises ValueError, when it is made, for joints without a coordinate and functions of another shape.
    """

    joints: Sequence[AbstractMeasured]
    control: Callable[[Array, Array, Array], Any]
    name: str | None = None

    @eager_numpy()
    def __post_init__(self) -> None:
        joints = checks.sequence("joints", self.joints, "joints with a coordinate each")
        if not joints or not all(isinstance(joint, AbstractMeasured) for joint in joints):
            raise ValueError(
                "`joints` of a JointControl must be joints with a free coordinate, such as `Revolute`, got "
                f"{short_repr(self.joints)}."
            )
        if not callable(self.control):
            raise ValueError(f"`control` must be a function of (t, positions, rates), got {short_repr(self.control)}.")
        self.place(tuple(initial_pose(body) for body in self.bodies))

    @property
    def bodies(self) -> tuple[Body, ...]:
        return tuple(body for joint in self.joints for body in joint.bodies)

    def terms(self) -> tuple[tuple[Term, ...], ...]:
        """Terms of the coordinate of each joint."""
        return tuple(joint.terms() for joint in self.joints)

    def place(self, poses: Poses) -> Feedback:
        del poses
        function, n = Function(self.control), len(self.joints)
        of = jnp.zeros(()), jnp.zeros(n), jnp.zeros(n)
        check_shape(self, "control", result_shapes(self, "control", function, *of), (n,), "one force for each joint")
        coordinates = tuple(joint.coordinate() for joint in self.joints)
        return Feedback(coordinates, tuple(len(joint.bodies) for joint in self.joints), function)
