"""Elements that couple bodies at a few nodes, for all formulations."""

from __future__ import annotations

import abc
from typing import ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.modules import Module
from polhode.multibody.mechanism.angles import PlacedAngle
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists, Wrench, axial, rates, relative_poses
from polhode.spaces.base import hat


class AbstractConstraintElement(Module):
    """A constraint between a few nodes, with its data in body frames; elements of one kind are stacked and batched.

    `driven` tells whether the constraint depends on time, so that it does work; `quadratic` whether its residual is a
    polynomial of degree 2 in positions and rotation matrices; `slips` how many of its components, the last ones, are
    nonholonomic: conditions on velocities alone, as an `AbstractRollingElement` has them; `relative` whether it is
    known to constrain the relative pose of two nodes only, so that it changes no total momentum.
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
        """The time derivative of the residual, and nonholonomic components; affine in the twists."""
        return jax.jvp(self.residual, (t, poses), (jnp.ones_like(t), rates(poses, twists)))[1]

    def gradients(self, t: Array, poses: Poses) -> tuple[Float[Array, "k 6"], ...]:
        """Derivatives of the residual along (rotation, translation) of each node, body-fixed and inertial.

        Equivalently those of the rate with respect to (ω, u), which nonholonomic components have as well.
        """
        still = jax.tree.map(jnp.zeros_like, poses)

        def along(k: int, direction: Float[Array, "6"]) -> Array:
            variation = Pose(direction[3:], poses[k].R @ hat(direction[:3]))
            return jax.jvp(lambda p: self.residual(t, p), (poses,), ((*still[:k], variation, *still[k + 1 :]),))[1]

        return tuple(jax.vmap(lambda e, k=k: along(k, e))(jnp.eye(6)).T for k in range(len(poses)))

    def sides(self, t: Array, poses: Poses) -> Float[Array, " s"]:
        """Cosines that are positive on the intended assembly branch of the constraint; none if there is only one."""
        del t, poses
        return jnp.zeros(0)

    def branch_residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        """Like `residual`, but zero on the intended assembly branch only, for iterations from far starts."""
        return self.residual(t, poses)

    def angles(self) -> tuple[PlacedAngle, ...]:
        """The angles that it reads as real numbers, whose turns are counted; none unless overridden."""
        return ()

    def points(self) -> tuple[Array, ...]:
        """Points of attachment on its nodes, in their frames, for pictures; empty if unknown."""
        return ()


class AbstractRollingElement(AbstractConstraintElement):
    """A constraint with nonholonomic components, no slip or no skidding, after those on positions.

    Subclasses define `slips`, `gap` and `slip`. Their residual is zero in the last components.
    """

    def gap(self, t: Array, poses: Poses) -> Float[Array, " h"]:
        """The constraints on positions, zero when kept, shape (k - slips,); none unless overridden."""
        del t, poses
        return jnp.zeros(0)

    @abc.abstractmethod
    def slip(self, t: Array, poses: Poses, twists: Twists) -> Float[Array, " s"]:
        """The constraints on velocities alone, zero when kept, shape (slips,); linear in the twists unless driven."""

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


class AbstractConstraintAdapter(AbstractConstraintElement):
    """The constraint `inner` with another form of its residual."""

    inner: eqx.AbstractVar[AbstractConstraintElement]

    @property
    def driven(self) -> bool:
        """Whether the constraint depends on time."""
        return self.inner.driven

    @property
    def size(self) -> int:
        return self.inner.size

    def angles(self) -> tuple[PlacedAngle, ...]:
        return self.inner.angles()


class AssemblyBranch(AbstractConstraintAdapter):
    """A constraint whose residual is zero on the intended assembly branch only.

    **Arguments:**

    - `inner`: the constraint.
    """

    inner: AbstractConstraintElement

    def residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        return self.inner.branch_residual(t, poses)


class InFirstFrame(AbstractConstraintAdapter):
    """A constraint between two nodes with the components of its residual in the frame of the first.

    **Arguments:**

    - `inner`: the constraint.
    """

    inner: AbstractConstraintElement

    def residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        return self.inner.residual(t, relative_poses(poses))

    def sides(self, t: Array, poses: Poses) -> Float[Array, " s"]:
        return self.inner.sides(t, relative_poses(poses))

    def branch_residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        return self.inner.branch_residual(t, relative_poses(poses))


class AbstractForceElement(Module):
    """Loads on a few nodes, with its data in body frames; elements of one kind are stacked and batched.

    The class attributes `uses_poses` and `uses_twists` tell whether the wrenches depend on them: tangent blocks that
    vanish are not formed. `conservative` tells whether all of them derive from `potential`, independent of time;
    `waves` whether such elements are often stiff, so that runs with explicit methods check their frequencies first;
    `relative` whether the potential of two nodes is known to depend on their relative pose only, and the loads on
    bodies to cancel; `brief` whether loads may act within a few steps only, as those of contacts; `measures` are the
    names of the values of `measured`.
    """

    conservative: ClassVar[bool] = False
    relative: ClassVar[bool] = False
    brief: ClassVar[bool] = False
    waves: ClassVar[bool] = False
    measures: ClassVar[tuple[str, ...]] = ()
    uses_poses: ClassVar[bool]
    uses_twists: ClassVar[bool]

    @abc.abstractmethod
    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        """The load on each node."""

    def tangent(self, t: Array, poses: Poses, twists: Twists) -> tuple[Array, Array | None] | None:
        """Minus the derivatives of the loads (torque, force) on all nodes, of shape (6 nodes, 6 nodes).

        Along the poses of the nodes at fixed body-fixed twists, and along these twists. All in body frames, into which
        derivatives of inertial forces are rotated. None for a part that vanishes; None for both, to differentiate.
        """
        del t, poses, twists
        return None

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        """Stored energy; zero for loads that have none."""
        del t, poses
        return jnp.zeros(())

    def measurements(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        """Lengths or angles of its law, which are output with the names `measures`."""
        del t, poses
        return jnp.zeros(0)

    @property
    def has_onset(self) -> bool:
        """Whether its loads come into force within a short way, so that steps are divided there."""
        return False

    def rate_to_onset(self, poses: Poses, twists: Twists, sense: Array) -> Float[Array, ""]:
        """The reciprocal of how long a step may be so that it resolves this; 0 where it isn't ahead."""
        del poses, twists, sense
        return jnp.zeros(())

    def angles(self) -> tuple[PlacedAngle, ...]:
        """The angles that it reads as real numbers, whose turns are counted; none unless overridden."""
        return ()

    def stiffest(self) -> AbstractForceElement:
        """An element with the largest derivatives that its loads have in a run, for limits of the step."""
        return self

    @property
    def reads_angles(self) -> Bool[Array, "..."] | bool:
        """Whether its loads depend on the values of `angles`; of stacked elements, which of them do."""
        return True

    def points(self) -> tuple[Array, ...]:
        """Points of attachment on its nodes, in their frames, for pictures; empty if unknown."""
        return ()


class Grips(NamedTuple):
    """Where an element presses: what friction with a bound by its forces has to know; s points of each element.

    - `push`: normal forces, shape (s,). - `point`: in space, shape (s, 3). - `normal`: towards the last node, shape
      (s, 3). - `tangents`: shape (s, 2, 3). - `place`: along the element, where that is something; shape (s,).
    """

    push: Float[Array, " s"]
    point: Float[Array, "s 3"]
    normal: Float[Array, "s 3"]
    tangents: Float[Array, "s 2 3"]
    place: Float[Array, " s"]


class AbstractGrippingElement(AbstractForceElement):
    """Normal forces of a contact whose friction may be exact: then methods with contacts impose it.

    - `friction_coefficients`: along both tangents, shape (2,); None where friction is regularised or there is none.
    - `grip_count`: how many points it may press at, s.
    """

    @property
    @abc.abstractmethod
    def friction_coefficients(self) -> Float[Array, "2"] | None: ...

    @property
    @abc.abstractmethod
    def grip_count(self) -> int: ...

    @abc.abstractmethod
    def grips(self, poses: Poses) -> Grips:
        """Its points."""

    @abc.abstractmethod
    def grip_slips(self, poses: Poses, twists: Twists, grips: Grips) -> Float[Array, "s 2"]:
        """Velocities along the tangents, of the surface that the forces act on against the other one."""

    @abc.abstractmethod
    def grip_wrenches(self, poses: Poses, grips: Grips, forces: Float[Array, "s 3"]) -> tuple[Wrench, ...]:
        """The loads of forces on that surface, in space, on each node."""


class AbstractStressedElement(AbstractForceElement):
    r"""An element whose loads are linear in the stress of its deformation, $W = -G(q)^T\sigma(q)$."""

    waves: ClassVar[bool] = True

    @abc.abstractmethod
    def stress(self, t: Array, poses: Poses, twists: Twists) -> Float[Array, " k"]:
        """σ, shape (k,)."""

    def turn(self, poses: Poses) -> Float[Array, ""]:
        """Relative rotation angle of the two nodes; zero where it needs no bound."""
        del poses
        return jnp.zeros(())

    @abc.abstractmethod
    def loads(self, poses: Poses, stress: Float[Array, " k"]) -> tuple[Wrench, ...]:
        """The load on each node at a given stress."""

    def load_tangent(self, poses: Poses, stress: Float[Array, " k"]) -> Array | None:
        """`tangent` of these loads along poses; None to differentiate."""
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
