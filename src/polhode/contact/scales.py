"""Sizes of a system with contacts, to which tolerances of its methods are relative: results are those of any units."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import slip_rows
from polhode.linalg.blocks import Matrix, apply
from polhode.spaces.base import Point, Vector
from polhode.systems.mechanical.contact_set import AbstractContactSet, ContactKinematics, pick

_ROUND_OFF = 64 * jnp.finfo(float).eps


class Scales(NamedTuple):
    """Scales of contacts in a position.

    - `unit`: of each gap: the radius of the smaller shape, the way between two stops, or 1 of angles.
    - `size`: of the numbers that each gap is a difference of: the largest distance from the origin, and 1 of angles.
    """

    unit: Float[Array, " c"]
    size: Float[Array, " c"]
    are_angles: Bool[Array, " c"]

    @classmethod
    def of(cls, system: Any, q: Point, number: Int[Array, " c"] | None = None) -> Scales:
        """Those of a system, without derivatives.

        - `number`: of the contacts, None for all in their order.
        """
        contacts: AbstractContactSet = system.contact_set
        extent, angles = position_size(system, q), jnp.asarray(contacts.are_angles)
        unit = jnp.where(angles, 1.0, contacts.gap_units)
        unit = jnp.where(jnp.isfinite(unit), unit, extent)
        size = jnp.where(angles, 1.0, extent)
        scales = jax.lax.stop_gradient(cls(unit, size, angles))
        return scales if number is None else pick(number, scales)

    def touch_gap(self, part: float) -> Float[Array, " c"]:
        """Gaps up to which contacts count as closed: this part of their units, and round-off."""
        return part * self.unit + _ROUND_OFF * self.size

    def slow(self, part: float, at: ContactKinematics, v: Vector, way: Float[Array, " c"]) -> Float[Array, " c"]:
        """Speeds along normals up to which contacts stay closed: a part of the largest, and what `way` says.

        - `way`: with which gaps of a step count as closed, over its time.
        """
        speed = jnp.abs(at.rows[:, 0]) @ jnp.abs(v) + jnp.abs(at.drift[:, 0])
        return part * self.largest(speed) + way

    def speeds(
        self, at: ContactKinematics, v: Vector, slips: Float[Array, "c rows"], free: Float[Array, "c rows"]
    ) -> Float[Array, "c rows"]:
        """Speeds of the system along all rows, never zero: of contacts, and of a fall over the length of their units.

        - `slips`: their relative velocities. - `free`: relative accelerations without contacts.
        """
        first = slip_rows(slips.shape[1]).stop
        moving = jnp.max(jnp.abs(at.rows[:, :first]) @ jnp.abs(v) + jnp.abs(slips[:, :first]), axis=1)
        fall = jnp.max(jnp.abs(free[:, :first]), axis=1)
        speed = self.largest(moving + jnp.sqrt(self.unit * jax.lax.stop_gradient(fall)))
        speed = jnp.where(speed > 0, speed, 1.0)
        spins = jnp.arange(slips.shape[1]) >= first
        return jax.lax.stop_gradient(jnp.where(spins, (speed / self.unit)[:, None], speed[:, None]))

    def largest(self, speed: Float[Array, " c"]) -> Float[Array, " c"]:
        """The largest speed of contacts, in the place of all others: angular velocities are none of points."""
        angles, lengths = (
            jnp.max(jnp.where(own, speed, 0.0), initial=0.0) for own in (self.are_angles, ~self.are_angles)
        )
        return jnp.where(self.are_angles, angles, lengths)

    def noise(self, part: float, rows: Float[Array, "c rows n"], moved: Float[Array, "c_rows n"], h: Array) -> Array:
        """Round-off of positions in a step as a motion, in the norm of the kinetic energy: √m times a speed.

        - `part`: of positions. - `moved`: changes of velocity by unit impulses along `rows`.
        """
        own = jnp.sum(rows * moved.reshape(rows.shape), axis=2)[:, :3]
        speed = part * self.size[:, None] / jnp.where(h != 0, jnp.abs(h), jnp.inf)
        largest = jnp.max(jnp.where(own > 0, speed / jnp.sqrt(jnp.where(own > 0, own, 1.0)), 0.0), initial=0.0)
        return jax.lax.stop_gradient(largest)


def position_size(system: Any, q: Point) -> Array:
    """The largest distance of a body from the origin, or the largest radius of a shape if that is more.

    Of systems without bodies the largest coordinate, at least 1.
    """
    if not hasattr(system, "motion"):
        leaves = [jnp.max(jnp.abs(x), initial=0.0) for x in jax.tree.leaves(q)]
        return jax.lax.stop_gradient(jnp.maximum(1.0, jnp.max(jnp.stack(leaves))))
    extent = jnp.maximum(jnp.max(jnp.abs(system.motion(q).poses.x), initial=0.0), system.contact_set.radius)
    return jax.lax.stop_gradient(jnp.where(extent > 0, extent, 1.0))


def energy_norm(mass: Matrix, v: Vector, n: int) -> Array:
    """√(vᵀMv), whose square is an energy: the same in all units. Without derivatives, which zero has none of."""
    v, mass = jax.lax.stop_gradient((v, mass))
    return jnp.sqrt(jnp.abs(v @ apply(mass, v, n)))
