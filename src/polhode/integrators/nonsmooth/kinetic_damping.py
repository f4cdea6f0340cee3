"""Motion that comes to rest: velocities are set to zero wherever the kinetic energy has passed a maximum."""

from __future__ import annotations

from typing import ClassVar, final

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool

from polhode.integrators.base import Carry, StepInfo
from polhode.integrators.nonsmooth.contact_record import ContactMemory
from polhode.integrators.nonsmooth.moreau import Moreau
from polhode.integrators.nonsmooth.time_stepper import AbstractTimeStepper
from polhode.linalg.blocks import apply
from polhode.systems.base import State
from polhode.systems.mechanical import AbstractMechanical


@final
class KineticDamping(AbstractTimeStepper):
    """Steps of `Moreau` towards rest, for equilibria: what is at rest stays where it is, everything else stops often.

    **Arguments:**

    - `tolerance`: of the contact problem, relative.
    """

    takes_holds: ClassVar = True
    takes_grips: ClassVar = True
    takes_bearings: ClassVar = True

    tolerance: float = eqx.field(static=True, default=1e-10)

    def _advance(
        self,
        system: AbstractMechanical,
        t: Array,
        h: Array,
        state: State,
        memory: ContactMemory,
        pressed: Bool[Array, " c"],
    ) -> tuple[Carry, StepInfo]:
        # Friction by the velocity after the step alone: of order 1, and without rounds that cycle.
        new = jnp.zeros_like(pressed)
        carry, info = Moreau(tolerance=self.tolerance)._advance(system, t, h, state, memory, new)
        (q, v), before = carry.state, state[1]
        mass = system.mass(t, q)
        slower = v @ apply(mass, v, system.n) < before @ apply(mass, before, system.n)
        return carry._replace(state=(q, jnp.where(slower, 0.0, v))), info

    def interpolate(
        self, system: AbstractMechanical, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> State:
        """At the nearer end of the step, as only steps are of interest."""
        del system, t, h
        return jax.tree.map(lambda a, b: jnp.where(s < 0.5, a, b), carry0.state, carry1.state)
