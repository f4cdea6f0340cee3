"""Elements that couple bodies at a few nodes, written once for all formulations."""

from __future__ import annotations

import abc
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.model.bodies import Body
from polhode.spaces.base import hat

if TYPE_CHECKING:
    from polhode.model.minimal_motions import AbstractJointMotion
    from polhode.model.model import Model


class Pose(NamedTuple):
    """Where a node is: position x (3,) in the inertial frame, rotation R (3, 3) from the body frame to it."""

    x: Float[Array, "3"]
    R: Float[Array, "3 3"]


class Twist(NamedTuple):
    """How a node moves: angular velocity (3,) in the body frame, velocity (3,) in the inertial frame."""

    omega: Float[Array, "3"]
    u: Float[Array, "3"]


_ZERO: Any = np.zeros(3)
_ONE: Any = np.eye(3)

ORIGIN = Pose(_ZERO, _ONE)
"""The pose of the ground."""

RESTING = Twist(_ZERO, _ZERO)
"""The twist of the ground."""


class Wrench(NamedTuple):
    """The load on a node: torque (3,) in the body frame, force (3,) at the node in the inertial frame."""

    torque: Float[Array, "3"]
    force: Float[Array, "3"]


Poses = tuple[Pose, ...]
Twists = tuple[Twist, ...]


def rates(poses: Poses, twists: Twists) -> Poses:
    """Time derivatives of poses: ẋ = u, Ṙ = R ω̃."""
    return tuple(Pose(twist.u, pose.R @ hat(twist.omega)) for pose, twist in zip(poses, twists, strict=True))


def axial(A: Float[Array, "3 3"]) -> Float[Array, "3"]:
    """The vector a with a·ω = Σ A_ij hat(ω)_ij for all ω."""
    return jnp.stack((A[2, 1] - A[1, 2], A[0, 2] - A[2, 0], A[1, 0] - A[0, 1]))


class AbstractConstraintElement(eqx.Module):
    """A constraint between a few nodes, with its data in body frames; elements of one kind are stacked and batched.

    `driven` tells whether the constraint depends on time, so that it does work; `quadratic` whether its residual is a
    polynomial of degree 2 in positions and rotation matrices; `slips` how many of its components, the last ones, are
    nonholonomic: conditions on velocities alone, as an `AbstractRollingElement` has them; `relative` whether it is
    known to hold two nodes relative to each other only, so that it changes no momentum of the whole.
    """

    driven: ClassVar[bool] = False
    quadratic: ClassVar[bool] = False
    relative: ClassVar[bool] = False
    slips: ClassVar[int] = 0

    @property
    @abc.abstractmethod
    def size(self) -> int:
        """Number of scalar constraints k."""

    @abc.abstractmethod
    def residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        """The residual of the constraint, shape (k,); a length or a cosine, so that 1 is a large value in SI units."""

    def rate(self, t: Array, poses: Poses, twists: Twists) -> Float[Array, " k"]:
        """The time derivative of the residual, and what must vanish besides; affine in the twists."""
        return jax.jvp(self.residual, (t, poses), (jnp.ones_like(t), rates(poses, twists)))[1]

    def gradients(self, t: Array, poses: Poses) -> tuple[Float[Array, "k 6"], ...]:
        """Derivatives of the residual along (rotation, translation) of each node, body-fixed and inertial.

        In other words those of the rate by its (ω, u), which nonholonomic components have as well.
        """
        still = jax.tree.map(jnp.zeros_like, poses)

        def along(k: int, direction: Float[Array, "6"]) -> Array:
            moved = Pose(direction[3:], poses[k].R @ hat(direction[:3]))
            return jax.jvp(lambda p: self.residual(t, p), (poses,), ((*still[:k], moved, *still[k + 1 :]),))[1]

        return tuple(jax.vmap(lambda e, k=k: along(k, e))(jnp.eye(6)).T for k in range(len(poses)))

    def sides(self, t: Array, poses: Poses) -> Float[Array, " s"]:
        """Cosines that are positive where the constraint is closed the right way round; none if there is one way."""
        del t, poses
        return jnp.zeros(0)

    def unfolded(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        """Like `residual`, but zero only where the joint is closed the right way round, for methods that start far."""
        return self.residual(t, poses)


class AbstractRollingElement(AbstractConstraintElement):
    """A constraint with components that hold velocities only, behind those that hold positions: no slip, no skidding.

    Subclasses give `slips`, `gap` and `slip`. Their residual is zero in the last components.
    """

    def gap(self, t: Array, poses: Poses) -> Float[Array, " h"]:
        """What must vanish of positions, shape (k - slips,); nothing unless overridden."""
        del t, poses
        return jnp.zeros(0)

    @abc.abstractmethod
    def slip(self, t: Array, poses: Poses, twists: Twists) -> Float[Array, " s"]:
        """What must vanish of velocities besides, shape (slips,); linear in the twists unless the element is driven."""

    def residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        return jnp.concatenate((self.gap(t, poses), jnp.zeros(self.slips)))

    def rate(self, t: Array, poses: Poses, twists: Twists) -> Float[Array, " k"]:
        change = jax.jvp(self.gap, (t, poses), (jnp.ones_like(t), rates(poses, twists)))[1]
        return jnp.concatenate((change, self.slip(t, poses, twists)))

    def gradients(self, t: Array, poses: Poses) -> tuple[Float[Array, "k 6"], ...]:
        still = tuple(Twist(jnp.zeros(3), jnp.zeros(3)) for _ in poses)

        def rate(k: int, w: Float[Array, "6"]) -> Array:
            return self.rate(t, poses, (*still[:k], Twist(w[:3], w[3:]), *still[k + 1 :]))

        return tuple(jax.jacfwd(lambda w, k=k: rate(k, w))(jnp.zeros(6)) for k in range(len(poses)))


class Unfolded(AbstractConstraintElement):
    """A constraint with its unfolded residual.

    **Arguments:**

    - `inner`: the constraint.
    """

    inner: AbstractConstraintElement

    @property
    def driven(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the constraint depends on time."""
        return self.inner.driven

    @property
    def size(self) -> int:
        return self.inner.size

    def residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        return self.inner.unfolded(t, poses)


class InFirstFrame(AbstractConstraintElement):
    """A constraint between two nodes as the first one sees them: components of its residual turn with that node.

    **Arguments:**

    - `inner`: the constraint.
    """

    inner: AbstractConstraintElement

    @property
    def driven(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride]
        """Whether the constraint depends on time."""
        return self.inner.driven

    @property
    def size(self) -> int:
        return self.inner.size

    def residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        return self.inner.residual(t, seen_from_first(poses))

    def sides(self, t: Array, poses: Poses) -> Float[Array, " s"]:
        return self.inner.sides(t, seen_from_first(poses))

    def unfolded(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        return self.inner.unfolded(t, seen_from_first(poses))


def seen_from_first(poses: Poses) -> Poses:
    """Two poses in the frame of the first."""
    a, b = poses
    return Pose(jnp.zeros_like(a.x), jnp.eye(3)), Pose(a.R.T @ (b.x - a.x), a.R.T @ b.R)


class AbstractForceElement(eqx.Module):
    """Loads on a few nodes, with its data in body frames; elements of one kind are stacked and batched.

    The class attributes `uses_poses` and `uses_twists` tell whether the wrenches depend on them: tangent blocks that
    vanish are not formed. `conservative` tells whether all of them derive from `potential`, and that not from time;
    `waves` whether such elements are often stiff, so that runs with explicit methods look at their frequencies first;
    `relative` whether the potential of two nodes is known to depend on their relative pose only.
    """

    conservative: ClassVar[bool] = False
    relative: ClassVar[bool] = False
    waves: ClassVar[bool] = False
    uses_poses: ClassVar[bool]
    uses_twists: ClassVar[bool]

    @abc.abstractmethod
    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        """The load on each node."""

    def tangent(self, t: Array, poses: Poses, twists: Twists) -> tuple[Array, Array | None] | None:
        """Minus the derivatives of the loads (torque, force) on all nodes, of shape (6 nodes, 6 nodes).

        Along the poses of the nodes at fixed body-fixed twists, and along these twists. Everything in body frames:
        turned back after the derivative of forces that belong to the inertial frame was taken. None in place of what
        vanishes, or of both to have them by differentiation.
        """
        del t, poses, twists
        return None

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        """Stored energy; zero for loads that have none."""
        del t, poses
        return jnp.zeros(())


class AbstractStressedElement(AbstractForceElement):
    r"""An element whose loads are linear in a stress that its own deformation makes, $W = -G(q)^T\sigma(q)$."""

    waves: ClassVar[bool] = True

    @abc.abstractmethod
    def stress(self, t: Array, poses: Poses, twists: Twists) -> Float[Array, " k"]:
        """σ, shape (k,)."""

    @abc.abstractmethod
    def loads(self, poses: Poses, stress: Float[Array, " k"]) -> tuple[Wrench, ...]:
        """The load on each node that a given stress makes."""

    def load_tangent(self, poses: Poses, stress: Float[Array, " k"]) -> Array | None:
        """`tangent` of these loads along poses; None to have it by differentiation."""
        del poses, stress
        return None


class AbstractPotentialElement(AbstractForceElement):
    """An element given by its potential; the wrenches are minus its gradient."""

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True

    @abc.abstractmethod
    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        """Stored energy."""

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        gradients = jax.grad(lambda p: self.potential(t, p))(poses)
        return tuple(
            Wrench(-axial(pose.R.T @ gradient.R), -gradient.x) for pose, gradient in zip(poses, gradients, strict=True)
        )


class AbstractPart(abc.ABC):
    """A part of a model: the bodies that it connects, a name, and the element that it becomes.

    Points and axes are given in the inertial frame at the initial time; `place` turns them into body frames.
    """

    name: str | None

    @property
    @abc.abstractmethod
    def bodies(self) -> tuple[Body, ...]:
        """The bodies that it connects; `model.ground` may be among them."""

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractConstraintElement | AbstractForceElement:
        """The element with its data in the frames of its bodies, from their initial poses."""

    def placed(self) -> AbstractConstraintElement | AbstractForceElement:
        """The element at the initial poses of its bodies."""
        return self.place(tuple(Pose(body.x, body.R) for body in self.bodies))

    def attach(self, model: Model) -> AbstractPart:
        """The part that joins the model in its place; may add coordinates that it needs, such as an integral."""
        del model
        return self


class AbstractJoint(AbstractPart):
    """A constraint between bodies."""

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractConstraintElement: ...

    def motion(self, carried: Body) -> AbstractJointMotion | None:
        """The relative motion that the joint allows one of its two bodies, with `initial` in the inertial frame.

        Joint coordinates are made of it. None where the joint stays a constraint among them: it allows no motion that
        `polhode.model.minimal_motions` knows, or one that depends on time. A class that overrides `place` has to
        override this too, otherwise it counts as None.
        """
        del carried
        return None


class AbstractForce(AbstractPart):
    """A load on bodies."""

    @abc.abstractmethod
    def place(self, poses: Poses) -> AbstractForceElement: ...


class AbstractComposite(abc.ABC):
    """A part that joins a model as several ones, such as a load on all nodes of a rod."""

    name: str | None

    @abc.abstractmethod
    def parts(self) -> Sequence[AbstractPart]:
        """The parts, in the order in which the model takes them; named after the composite if it has a name."""
