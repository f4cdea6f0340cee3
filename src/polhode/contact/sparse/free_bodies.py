"""Free bodies and the contacts between them: products with rows, columns and masses, without matrices."""

from __future__ import annotations

from typing import NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Float, Int


class Spatial(NamedTuple):
    """Angular and linear parts, in the inertial frame, a row for each body and the last one for the ground."""

    angular: Float[Array, "b 3"]
    linear: Float[Array, "b 3"]


class FreeBodies(NamedTuple):
    """Inverse masses and inverse inertias in the inertial frame; zero for the ground, the last row."""

    mass: Float[Array, " b"]
    inertia: Float[Array, "b 3 3"]

    def respond(self, impulses: Spatial) -> Spatial:
        """Changes of velocities by impulses and angular impulses."""
        angular = jnp.sum(self.inertia * impulses.angular[:, None, :], axis=2)
        return Spatial(angular, self.mass[:, None] * impulses.linear)


class ContactRows(NamedTuple):
    """Relative velocities of k contacts as products with velocities of two bodies each.

    - `first`, `second`: rows of the bodies. - `linear`: directions of slips; zero for relative spins.
    - `of_first`, `of_second`: what belongs to angular velocities.
    """

    first: Int[Array, " k"]
    second: Int[Array, " k"]
    linear: Float[Array, "k rows 3"]
    of_first: Float[Array, "k rows 3"]
    of_second: Float[Array, "k rows 3"]

    @classmethod
    def at(
        cls,
        first: Int[Array, " k"],
        second: Int[Array, " k"],
        frames: Float[Array, "k 3 3"],
        arms: tuple[Float[Array, "k 3"], Float[Array, "k 3"]],
        rows: int,
    ) -> ContactRows:
        """Rows along the axes of frames, for points with these arms about both centres of mass."""
        of_first, of_second = (jnp.cross(arm[:, None, :], frames) for arm in arms)
        linear = frames
        if rows == 6:
            linear = jnp.concatenate((frames, jnp.zeros_like(frames)), axis=1)
            of_first, of_second = (jnp.concatenate((part, frames), axis=1) for part in (of_first, of_second))
        return cls(first, second, linear, of_first, of_second)

    def slips(self, velocities: Spatial) -> Float[Array, "k rows"]:
        """Relative velocities."""
        apart = velocities.linear[self.second] - velocities.linear[self.first]
        spins = velocities.angular[self.second], velocities.angular[self.first]
        parts = (self.linear, apart), (self.of_second, spins[0]), (self.of_first, -spins[1])
        return sum(
            (jnp.sum(rows * vector[:, None, :], axis=2) for rows, vector in parts),
            start=jnp.zeros(self.linear.shape[:2]),
        )

    def spread(self, impulses: Float[Array, "k rows"], count: int) -> Spatial:
        """Impulses on all bodies, `count` of them with the ground."""
        weights = impulses[:, :, None]
        force = jnp.sum(weights * self.linear, axis=1)
        turns = jnp.sum(weights * self.of_first, axis=1), jnp.sum(weights * self.of_second, axis=1)
        zero = jnp.zeros((count, 3))
        linear = zero.at[self.second].add(force).at[self.first].add(-force)
        return Spatial(zero.at[self.second].add(turns[1]).at[self.first].add(-turns[0]), linear)

    def own_blocks(self, bodies: FreeBodies) -> Float[Array, "k rows rows"]:
        """Responses of each contact to its own impulses."""
        mass = (bodies.mass[self.first] + bodies.mass[self.second])[:, None, None]
        blocks = mass * _products(self.linear, self.linear)
        for number, rows in ((self.first, self.of_first), (self.second, self.of_second)):
            moved = jnp.sum(bodies.inertia[number][:, None] * rows[:, :, None, :], axis=3)
            blocks = blocks + _products(rows, moved)
        return blocks


def _products(a: Float[Array, "k rows 3"], b: Float[Array, "k rows 3"]) -> Float[Array, "k rows rows"]:
    return jnp.sum(a[:, :, None, :] * b[:, None, :, :], axis=3)
