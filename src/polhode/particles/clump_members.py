"""The spheres of clumps: how they move with their bodies, and what their loads do to these."""

from __future__ import annotations

from collections.abc import Sequence

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float, Int

from polhode.particles.clump import Clump
from polhode.spaces.component_arrays import (
    Quaternions,
    Vectors,
    add,
    add_scaled,
    columns,
    cross,
    rate_of,
    rotate,
    scale,
    select,
    spin_of,
    subtract,
)
from polhode.systems.separable import Loads, Motion, PoseComponents, Rates


class Members(eqx.Module):
    """Which body each sphere belongs to, and where it is on it; spheres are numbered body by body.

    - `owners`: number of the body of each sphere. - `arms`: from its centre of mass, along its principal axes.
    - `numbers`: of the spheres of each body, shape (most spheres of one, bodies), and whether there is one, `real`.
    """

    owners: Int[Array, " n"]
    arms: Float[Array, "n 3"]
    numbers: Int[Array, "k b"]
    real: Bool[Array, "k b"]

    @classmethod
    def of_clumps(cls, shapes: Sequence[Clump], kinds: np.ndarray) -> Members:
        """Those of bodies with these shapes, by number."""
        counts = np.array([len(shape.diameters) for shape in shapes])[kinds]
        first, slot = np.cumsum(counts) - counts, np.arange(counts.max())[:, None]
        real = slot < counts
        return cls(
            jnp.asarray(np.repeat(np.arange(len(kinds)), counts), jnp.int32),
            jnp.asarray(np.concatenate([shapes[kind].arms for kind in kinds])),
            jnp.asarray(np.where(real, first + slot, 0), jnp.int32),
            jnp.asarray(real),
        )

    def levers(self, q: Quaternions) -> Vectors:
        """From the centre of mass of its body to each sphere, inertial frame."""
        return rotate(select(q, self.owners), columns(self.arms))

    def places(self, places: PoseComponents) -> PoseComponents:
        """Centres of the spheres, and attitudes of their bodies."""
        return PoseComponents(add(select(places.x, self.owners), self.levers(places.q)), select(places.q, self.owners))

    def rates(self, rates: Rates, levers: Vectors) -> Rates:
        """Velocities of the centres of the spheres, and angular velocities."""
        v, omega = select(rates.v, self.owners), select(rates.omega, self.owners)
        return Rates(add(v, cross(omega, levers)), omega)

    def sum_loads(self, loads: Loads, levers: Vectors) -> Loads:
        """Loads of the bodies from those on their spheres."""
        force, moment = loads
        total = self.sum((*force, *add(moment, cross(levers, force))))
        return Loads(total[:3], total[3:])

    def sum(self, a: tuple[Array, ...]) -> tuple[Array, ...]:
        """Sums over the spheres of each body, always in the same order."""

        def one(total: tuple[Array, ...], slot: tuple[Array, Array]) -> tuple[tuple[Array, ...], None]:
            numbers, real = slot
            return tuple(s + jnp.where(real, x[numbers], 0.0) for s, x in zip(total, a, strict=True)), None

        zero = tuple(jnp.zeros(self.numbers.shape[1], x.dtype) for x in a)
        return jax.lax.scan(one, zero, (self.numbers, self.real))[0]

    def motion(self, motion: Motion, masses: Array, moments: Array) -> tuple[Motion, Vectors]:
        """Motion of the spheres in that of their bodies, and their levers at its end.

        Displacements are those of the centres, over h. Angular velocities are the means of both ends; at the end of the
        step bodies will have gained what the loads before do in its second half.
        """
        places, h, levers = self.places(motion.places), motion.h, self.levers(motion.places.q)
        if motion.start is None or motion.ends is None:
            still = self.rates(Rates(motion.v, motion.omega), levers)
            zero = (jnp.zeros_like(still.v[0]),) * 3
            none = Loads(zero, zero)
            return Motion(places, *still, h, none, motion.t, ends=(still, still), gains=Rates(zero, zero)), levers
        before = self.levers(motion.start)
        ends = tuple(self.rates(rates, at) for rates, at in zip(motion.ends, (before, levers), strict=True))
        turn = scale(1 / jnp.where(h != 0, h, 1.0), subtract(levers, before))
        v, omega = add(select(motion.v, self.owners), turn), select(motion.omega, self.owners)

        J, last = columns(moments), motion.ends[1].omega
        spin = add_scaled(spin_of(J, motion.places.q, last), 0.5 * h, motion.before.moment)
        final = select(rate_of(J, motion.places.q, spin), self.owners)
        push = select(scale(0.5 * h / masses, motion.before.force), self.owners)
        gains = Rates(add(push, subtract(cross(final, levers), turn)), subtract(final, omega))
        none = Loads((), ())
        return Motion(places, v, omega, h, none, motion.t, ends=(ends[0], ends[1]), gains=gains), levers
