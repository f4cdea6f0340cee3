"""Edges that others press, for limits of the step."""

from __future__ import annotations

from typing import ClassVar

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.mechanism.elements import AbstractForceElement
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench
from polhode.rods.centre_line import CentreLine, NodeLoads, Velocities
from polhode.rods.contact_law import LineLaw
from polhode.rods.contact_patch import STATIONS
from polhode.rods.edge import EdgeShape

_SHARES = 0.25, 0.5, 0.25


class PressedEdge(AbstractForceElement):
    """An edge that others press all along, across both of its axes, as springs, dampers and viscous friction.

    They give way as it does: with loads twice those on a fixed surface, the largest frequency of a pair of equal edges
    is that of each alone. Its loads vanish; their derivatives are the largest ones.

    **Arguments:**

    - `edge`, `radius`, `law`: the edge and its contact. - `depth`: that is reached.
    """

    uses_poses: ClassVar[bool] = True
    uses_twists: ClassVar[bool] = True

    edge: EdgeShape
    radius: Float[Array, ""]
    law: LineLaw
    depth: Float[Array, ""]

    def wrenches(self, t: Array, poses: Poses, twists: Twists) -> tuple[Wrench, ...]:
        del t
        nodes, still = self.edge.nodes(poses), jax.lax.stop_gradient
        line = CentreLine.of(nodes, self.edge.length)
        velocities = Velocities.of(nodes, self.edge.node_twists(poses, twists))
        sums = NodeLoads(*(jnp.zeros(3),) * 4)
        for s, share in zip(jnp.asarray(STATIONS), _SHARES, strict=True):
            point = line.point(s)
            for axis in range(2):
                normal = still(nodes[0].R[:, axis])
                arm = -self.radius * normal
                speed = line.velocity(velocities, s, arm)
                change = (point - still(point)) @ normal
                force = self.law.stiffest(self.depth, change, normal, speed - still(speed))
                loads = line.loads(s, arm, 2 * share * self.edge.length * force)
                sums = jax.tree.map(jnp.add, sums, loads)
        first = Wrench(nodes[0].R.T @ sums.first_moment, sums.first)
        second = Wrench(nodes[1].R.T @ sums.second_moment, sums.second)
        return self.edge.on_bodies(poses, (first, second))
