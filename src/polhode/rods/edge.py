"""Elements of the edges of a rod: elastic and damped strains, and constrained strains."""

from __future__ import annotations

import dataclasses
from typing import Any, ClassVar

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.elements import AbstractConstraintElement, AbstractStressedElement
from polhode.multibody.mechanism.poses import Pose, Poses, Twists, Wrench
from polhode.multibody.parts import AbstractForce, AbstractJoint
from polhode.rods.strain import AbstractStrain, HelicalStrain, Increment, Vector6, offset
from polhode.rods.tangent import helical_tangent
from polhode.spaces.base import cross


class EdgeShape(eqx.Module):
    """An edge between two nodes and its stress-free increment.

    **Arguments:**

    - `strain`: the strain measure.
    - `frames`: poses of the nodes in the frames of their bodies; None for nodes that are bodies themselves.
    - `rest`: d⁰ = Δs·w⁰, shape (6,).
    - `length`: Δs.
    """

    strain: AbstractStrain
    frames: tuple[Pose | None, Pose | None]
    rest: Vector6
    length: Float[Array, ""]

    @property
    def has_tangent(self) -> bool:
        """Whether the tangent is known in closed form: nodes with frames are those of the ground, which don't move."""
        return isinstance(self.strain, HelicalStrain)

    def nodes(self, poses: Poses) -> Poses:
        """The poses of both nodes."""
        return tuple(offset(pose, frame) for pose, frame in zip(poses, self.frames, strict=True))

    def node_twists(self, poses: Poses, twists: Twists) -> Twists:
        """The twists of both nodes."""
        return tuple(
            twist
            if frame is None
            else twist._replace(omega=frame.R.T @ twist.omega, u=twist.u + pose.R @ cross(twist.omega, frame.x))
            for pose, twist, frame in zip(poses, twists, self.frames, strict=True)
        )

    def on_bodies(self, poses: Poses, wrenches: tuple[Wrench, ...]) -> tuple[Wrench, ...]:
        """Loads on the nodes as loads on the bodies."""
        return tuple(
            load if frame is None else Wrench(frame.R @ load.torque + cross(frame.x, pose.R.T @ load.force), load.force)
            for pose, load, frame in zip(poses, wrenches, self.frames, strict=True)
        )

    def turn(self, poses: Poses) -> Float[Array, ""]:
        """Angle between both nodes."""
        return jnp.linalg.norm(self.strain.increment(self.nodes(poses)).vector[:3])

    def loads(self, poses: Poses, stress: Vector6) -> tuple[Wrench, ...]:
        """Loads of the moments and forces in the section on the bodies."""
        nodes = self.nodes(poses)
        return self.on_bodies(poses, self.strain.loads(nodes, self.strain.increment(nodes), stress))

    def load_tangent(self, poses: Poses, stress: Vector6) -> Array | None:
        """Minus the derivatives of these loads at fixed stress, where they are known in closed form."""
        if not self.has_tangent:
            return None
        return helical_tangent(self.nodes(poses), None, stress, jnp.zeros((6, 6)), None)[0]


class ElasticEdge(AbstractStressedElement):
    r"""The potential $\tfrac12\Delta s\,(w-w^0)^TC(w-w^0)$ of an edge with strain w = d/Δs at its midpoint.

    **Arguments:**

    - `shape`: the edge.
    - `stiffness`: C, shape (6, 6); zero for strains whose stress the constraint provides.
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = False
    conservative: ClassVar[bool] = True

    shape: EdgeShape
    stiffness: Float[Array, "6 6"]

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        del t
        d = self.shape.strain.increment(self.shape.nodes(poses)).vector - self.shape.rest
        return 0.5 * (d @ self.stiffness @ d) / self.shape.length

    def elastic(self, d: Increment) -> Vector6:
        """C (w - w⁰): moments and forces in the section."""
        return self.stiffness @ (d.vector - self.shape.rest) / self.shape.length

    def stress(self, t: Array, poses: Poses, twists: Twists) -> Vector6:
        """Moments and forces in the section."""
        del t, twists
        return self.elastic(self.shape.strain.increment(self.shape.nodes(poses)))

    def turn(self, poses: Poses) -> Float[Array, ""]:
        return self.shape.turn(poses)

    def loads(self, poses: Poses, stress: Vector6) -> tuple[Wrench, ...]:
        return self.shape.loads(poses, stress)

    def load_tangent(self, poses: Poses, stress: Vector6) -> Array | None:
        return self.shape.load_tangent(poses, stress)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t, twists
        nodes = self.shape.nodes(poses)
        d = self.shape.strain.increment(nodes)
        return self.shape.on_bodies(poses, self.shape.strain.loads(nodes, d, self.elastic(d)))

    def tangent(self, t: Array, poses: Poses, twists: Twists) -> tuple[Array, Array | None] | None:
        if not self.shape.has_tangent:
            return None
        C = self.stiffness / self.shape.length
        return helical_tangent(self.shape.nodes(poses), None, self.stress(t, poses, twists), C, None)


class ViscoelasticEdge(AbstractStressedElement):
    """An elastic edge of a Kelvin–Voigt material: D ẇ is added to its stress.

    **Arguments:**

    - `edge`: the elastic edge.
    - `damping`: D, shape (6, 6).
    """

    relative: ClassVar[bool] = True
    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    edge: ElasticEdge
    damping: Float[Array, "6 6"]

    @property
    def shape(self) -> EdgeShape:
        """The edge."""
        return self.edge.shape

    def potential(self, t: Array, poses: Poses) -> Float[Array, ""]:
        return self.edge.potential(t, poses)

    def stress(self, t: Array, poses: Poses, twists: Twists) -> Vector6:
        """Moments and forces in the section."""
        del t
        nodes = self.shape.nodes(poses)
        return self._stress(nodes, self.shape.node_twists(poses, twists), self.shape.strain.increment(nodes))

    def turn(self, poses: Poses) -> Float[Array, ""]:
        return self.shape.turn(poses)

    def loads(self, poses: Poses, stress: Vector6) -> tuple[Wrench, ...]:
        return self.shape.loads(poses, stress)

    def load_tangent(self, poses: Poses, stress: Vector6) -> Array | None:
        return self.shape.load_tangent(poses, stress)

    def _stress(self, nodes: Poses, twists: Twists, d: Increment) -> Vector6:
        rate = self.shape.strain.rate(nodes, twists, d)
        return self.edge.elastic(d) + self.damping @ rate / self.shape.length

    def tangent(self, t: Array, poses: Poses, twists: Twists) -> tuple[Array, Array | None] | None:
        if not self.shape.has_tangent:
            return None
        # At fixed body-fixed twists, which is what the closed form expects.
        nodes, node_twists = self.shape.nodes(poses), self.shape.node_twists(poses, twists)
        C, D = self.edge.stiffness / self.shape.length, self.damping / self.shape.length
        return helical_tangent(nodes, node_twists, self.stress(t, poses, twists), C, D)

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        nodes, strain = self.shape.nodes(poses), self.shape.strain
        d = strain.increment(nodes)
        stress = self._stress(nodes, self.shape.node_twists(poses, twists), d)
        return self.shape.on_bodies(poses, strain.loads(nodes, d, stress))


class RigidStrains(AbstractConstraintElement):
    """Strains that keep their stress-free value: Φ = d - d⁰ for some components; multipliers are the section forces.

    **Arguments:**

    - `shape`: the edge.
    - `which`: numbers of the components.
    """

    shape: EdgeShape
    which: tuple[int, ...] = eqx.field(static=True)

    @property
    def size(self) -> int:
        return len(self.which)

    def residual(self, t: Array, poses: Poses) -> Float[Array, " k"]:
        del t
        d = self.shape.strain.increment(self.shape.nodes(poses)).vector - self.shape.rest
        return d[np.array(self.which)]

    def gradients(self, t: Array, poses: Poses) -> tuple[Float[Array, "k 6"], ...]:
        del t
        rows = self.shape.strain.rows(self.shape.nodes(poses), self.which)
        return tuple(
            row if frame is None else _rows_on_body(row, pose, frame)
            for pose, row, frame in zip(poses, rows, self.shape.frames, strict=True)
        )


def _rows_on_body(rows: Float[Array, "k 6"], pose: Pose, frame: Pose) -> Float[Array, "k 6"]:
    """Rows acting on the motion of a node, as rows acting on that of its body."""
    turn, push = rows[:, :3], rows[:, 3:]
    return jnp.concatenate((turn @ frame.R.T + jnp.cross(frame.x, push @ pose.R), push), axis=1)


@dataclasses.dataclass(frozen=True, eq=False)
class Edge(AbstractForce):
    """One edge of a rod, as `Model.add_rod` makes it.

    - `first`, `second`: the bodies of its nodes; `shape`, `stiffness`, `damping`: see the elements.
    """

    first: Body
    second: Body
    shape: EdgeShape
    stiffness: Any
    damping: Any = None
    name: str | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second

    def place(self, poses: Poses) -> ElasticEdge | ViscoelasticEdge:
        del poses
        elastic = ElasticEdge(self.shape, self.stiffness)
        return elastic if self.damping is None else ViscoelasticEdge(elastic, self.damping)


@dataclasses.dataclass(frozen=True, eq=False)
class EdgeConstraint(AbstractJoint):
    """The constrained strains of one edge of a rod, as `Model.add_rod` makes it.

    Its multipliers are the stress resultants that belong to these strains, in axes of the section.
    """

    first: Body
    second: Body
    shape: EdgeShape
    which: tuple[int, ...]
    name: str | None = None

    @property
    def bodies(self) -> tuple[Body, ...]:
        return self.first, self.second

    def place(self, poses: Poses) -> RigidStrains:
        del poses
        return RigidStrains(self.shape, self.which)
