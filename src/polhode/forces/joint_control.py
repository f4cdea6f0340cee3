"""Forces along several joint coordinates at once, as a function of all of them."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import shown
from polhode.compiler.numpy.eager import uncompiled
from polhode.joints._frames import start
from polhode.joints.named_coordinates import AbstractMeasured, Term
from polhode.joints.relative import AbstractRelativeCoordinate
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.angles import PlacedAngle
from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.multibody.mechanism.user_functions import Function, check_shape, returned
from polhode.multibody.parts import AbstractForce


class Feedback(AbstractForceElement):
    """Forces u(t, s, ṡ) along relative coordinates s.

    **Arguments:**

    - `coordinates`: each of its own nodes, one after the other. - `sizes`: numbers of these.
    - `control`: (t, s, ṡ) → forces, all of shape (n,).
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    coordinates: tuple[AbstractRelativeCoordinate, ...]
    sizes: tuple[int, ...] = eqx.field(static=True)
    control: Function

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        own = list(zip(self.coordinates, self._split(poses), self._split(twists), strict=True))
        s = jnp.stack([c.value(where) for c, where, _ in own])
        rates = jnp.stack([c.rate(where, moving) for c, where, moving in own])
        efforts = self.efforts(t, s, rates)
        return tuple(w for (c, where, _), f in zip(own, efforts, strict=True) for w in c.wrenches(where, f))

    def efforts(self, t: Array, s: Float[Array, " n"], rates: Float[Array, " n"]) -> Float[Array, " n"]:
        """The generalised forces."""
        return jnp.asarray(self.control(t, s, rates))

    def angles(self) -> tuple[PlacedAngle, ...]:
        nodes = self._split(range(sum(self.sizes)))
        return tuple(angle for c, own in zip(self.coordinates, nodes, strict=True) for angle in c.angles(tuple(own)))

    def _split(self, nodes: Sequence[Any]) -> list[Any]:
        ends = list(itertools.accumulate(self.sizes))
        return [nodes[end - size : end] for end, size in zip(ends, self.sizes, strict=True)]


@dataclasses.dataclass(frozen=True, eq=False)
class JointControl(AbstractForce):
    r"""Control of several joints with what all of them do: forces and torques $\tau = u(t, s, \dot s)$.

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

    @uncompiled()
    def __post_init__(self) -> None:
        joints = checks.sequence("joints", self.joints, "joints with a coordinate each")
        if not joints or not all(isinstance(joint, AbstractMeasured) for joint in joints):
            raise ValueError(
                "`joints` of a JointControl must be joints with a free coordinate, such as `Revolute`, got "
                f"{shown(self.joints)}."
            )
        if not callable(self.control):
            raise ValueError(f"`control` must be a function of (t, positions, rates), got {shown(self.control)}.")
        self.place(tuple(start(body) for body in self.bodies))

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
        check_shape(self, "control", returned(self, "control", function, *of), (n,), "one force for each joint")
        coordinates = tuple(joint.coordinate() for joint in self.joints)
        return Feedback(coordinates, tuple(len(joint.bodies) for joint in self.joints), function)
