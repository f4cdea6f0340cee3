"""A rod of a model: its nodes are bodies, its edges elements."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Pose, Poses, Twist, Twists
from polhode.rods.edge import Edge
from polhode.rods.section import Section
from polhode.rods.shape import Points
from polhode.rods.strain import AbstractStrain
from polhode.systems.base import Observable, State
from polhode.systems.mechanical import Multipliers

if TYPE_CHECKING:
    from polhode.multibody.system import MultibodySystem


@dataclasses.dataclass(frozen=True, eq=False)
class Rod:
    """A rod of a model, as `Model.add_rod` returns it.

    - `name`: of the rod; its nodes are "name-node-0", …, its edges "name-edge-1", …
    - `nodes`: the bodies of the nodes, for joints, forces and outputs; `model.ground` where the rod is clamped. A
      closed rod does not repeat its first node.
    - `places`: poses of the nodes at the start, stacked.
    - `edges`: the elements between them, N of them.
    - `lengths`: of the edges without stress, shape (N,).
    - `sections`: of the edges.
    - `constrained`: numbers of the constrained strains.
    - `radius`: for contact; None for that of the sections.
    """

    name: str
    nodes: tuple[Body, ...]
    places: Pose
    edges: tuple[Edge, ...]
    lengths: Float[Array, " N"]
    sections: tuple[Section, ...]
    constrained: tuple[int, ...]
    radius: Any = None

    @property
    def touches(self) -> bool:
        """Whether `Model.contacts` includes it: it has a `radius` of its own."""
        return self.radius is not None

    @property
    def contact_radius(self) -> Any:
        """The radius for contact: its own, or the largest of its sections; 0 if neither is known."""
        if self.radius is not None:
            return self.radius
        return jnp.max(checks.stack([section.radius for section in self.sections]))

    def __repr__(self) -> str:
        return f"Rod({short_repr(self.name)}, {len(self.edges)} edges)"

    @property
    def first(self) -> Body:
        """The body of the first node."""
        return self.nodes[0]

    @property
    def last(self) -> Body:
        """The body of the last node."""
        return self.nodes[-1]

    @property
    def closed(self) -> bool:
        """Whether the last edge leads back to the first node."""
        return len(self.nodes) == len(self.edges)

    @property
    def arc_lengths(self) -> Float[Array, " nodes"]:
        """Places of the nodes along the rod without stress, from 0."""
        return jnp.concatenate((jnp.zeros(1), jnp.cumsum(self.lengths)))[: len(self.nodes)]

    @property
    def node_lengths(self) -> Float[Array, " nodes"]:
        """The part of the rod that belongs to each node: half of the edges beside it."""
        return halves(self.lengths, self.closed)

    # --- results of runs -------------------------------------------------------------------------------------------

    def poses(self, system: MultibodySystem) -> Callable[[Array, State], Pose]:
        """Positions (nodes, 3) and rotations (nodes, 3, 3), third column along the rod, as a function of (t, state)."""
        rows, clamped_nodes, clamps = self._rows(system)

        def poses(t: Array, state: State) -> Pose:
            del t
            q, _ = state
            body_poses = system.motion(q).poses
            node_poses = Pose(body_poses.x[rows], body_poses.R[rows])
            if not clamped_nodes.size:
                return node_poses
            return Pose(node_poses.x.at[clamped_nodes].set(clamps.x), node_poses.R.at[clamped_nodes].set(clamps.R))

        return poses

    def points(self, system: MultibodySystem) -> Observable:
        """Positions of the nodes (nodes, 3) as a function of (t, state); a closed rod returns to its first node."""
        poses = self.poses(system)

        def points(t: Array, state: State) -> Points:
            x = poses(t, state).x
            return jnp.concatenate((x, x[:1])) if self.closed else x

        return points

    def strains(self, system: MultibodySystem) -> Observable:
        """w = (K, Γ) of the edges, shape (N, 6), as a function of (t, state)."""
        poses, strain, ends = self.poses(system), self._strain, self._ends()

        def strains(t: Array, state: State) -> Float[Array, "N 6"]:
            node_poses = poses(t, state)
            both = tuple(Pose(node_poses.x[e], node_poses.R[e]) for e in ends)
            d = jax.vmap(lambda p: strain.increment(p).vector)(both)
            return d / self.lengths[:, None]

        return strains

    def section_forces(self, system: MultibodySystem) -> Callable[[Array, State, Multipliers], Float[Array, "N 6"]]:
        """Moments and forces (M₁, M₂, M₃, N₁, N₂, N₃) in the edges as a function of (t, state, multipliers).

        In axes of the section, what the part of the rod after it exerts on the part before it; elastic and damping
        parts, and the multipliers for strains that are constrained away. For frames of a run, use `jax.vmap`.

        They are the stresses n of the strain, whose work is n·δd. An edge with `strain="SE3"` that turns by θ acts on
        its nodes with T(d)⁻ᵀ n, which is larger by the part θ²/24 where it bends: 1.6 % at 0.63 rad, and of order 2
        in the length of edges.
        """
        rows, clamped_nodes, clamps = self._rows(system)
        ends, strain = self._ends(), self._strain
        rest, C = (checks.stack(x) for x in ([e.shape.rest for e in self.edges], [e.stiffness for e in self.edges]))
        D = checks.stack([jnp.zeros((6, 6)) if e.damping is None else e.damping for e in self.edges])

        def one(poses: Poses, twists: Twists, rest: Array, length: Array, C: Array, D: Array) -> Array:
            d = strain.increment(poses)
            return (C @ (d.vector - rest) + D @ strain.rate(poses, twists, d)) / length

        def forces(t: Array, state: State, multipliers: Multipliers) -> Float[Array, "N 6"]:
            q, v = state
            motion = system.motion(q, v)
            assert motion.twists is not None
            poses = Pose(motion.poses.x[rows], motion.poses.R[rows])
            twists = Twist(motion.twists.omega[rows], motion.twists.u[rows])
            if clamped_nodes.size:
                poses = Pose(poses.x.at[clamped_nodes].set(clamps.x), poses.R.at[clamped_nodes].set(clamps.R))
            at = lambda tree, e: jax.tree.map(lambda a: a[e], tree)  # noqa: E731
            both, both_twists = tuple(at(poses, e) for e in ends), tuple(at(twists, e) for e in ends)
            stresses = jax.vmap(one)(both, both_twists, rest, self.lengths, C, D)
            if not self.constrained:
                return stresses
            by_joint = system.joint_multipliers(t, q, multipliers)
            edge_multipliers = jnp.stack([by_joint[f"{e.name}-constraint"] for e in self.edges])
            return stresses.at[:, np.array(self.constrained)].add(edge_multipliers)

        return forces

    @property
    def _strain(self) -> AbstractStrain:
        return self.edges[0].shape.strain

    def _ends(self) -> tuple[np.ndarray, np.ndarray]:
        """Numbers of the nodes before and after each edge."""
        before = np.arange(len(self.edges))
        return before, (before + 1) % len(self.nodes)

    def _rows(self, system: MultibodySystem) -> tuple[np.ndarray, np.ndarray, Pose]:
        """Rows of the nodes in the motion of a system, the clamped nodes, and their poses."""
        row_numbers = {name: row for row, name in enumerate(system.names)}
        is_clamped = [body.kind == "ground" for body in self.nodes]
        absent = [
            b.name for b, ground in zip(self.nodes, is_clamped, strict=True) if not ground and b.name not in row_numbers
        ]
        if absent:
            raise ValueError(
                f"The system has no {absent[0]!r}: rod {self.name!r} belongs to another model. Pass a system that was "
                "assembled from the model of the rod."
            )
        rows = np.array([row_numbers.get(body.name, len(row_numbers)) for body in self.nodes])
        clamped_nodes = np.flatnonzero(is_clamped)
        return rows, clamped_nodes, Pose(self.places.x[clamped_nodes], self.places.R[clamped_nodes])


def halves(values: Array, closed: bool) -> Array:
    """For each node half the sum of the values of the edges beside it."""
    if closed:
        return 0.5 * (values + jnp.roll(values, 1, axis=0))
    zero = jnp.zeros_like(values[:1])
    return 0.5 * (jnp.concatenate((zero, values)) + jnp.concatenate((values, zero)))
