"""The memory of the nonsmooth generalized-α method: what its filter makes of accelerations and of contact forces."""

from __future__ import annotations

from typing import NamedTuple, Self

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float, Int

from polhode.contact.contact_problem import STICK, slip_rows
from polhode.integrators.implicit._alpha_coefficients import Coefficients
from polhode.spaces.base import Vector


class SmoothContacts(NamedTuple):
    """Contacts at the end of a step, with their forces in the smooth motion.

    - `force`: along normals and tangents. - `lag`: (λ̄ - λ)/h, where λ̄ is what the filter of the method makes of
      forces λ, in a form that does not depend on the step size.
    - `push`, `push_lag`: accelerations by these. - `impulses`: of the step, along all rows.
    """

    force: Float[Array, "c first"]
    lag: Float[Array, "c first"]
    push: Float[Array, "c n"]
    push_lag: Float[Array, "c n"]
    impulses: Float[Array, "c rows"]

    def means(self, c: Coefficients, h: Array) -> tuple[Array, Array]:
        """λ̄ at the start of the next step, and its part at the end that doesn't depend on λ there."""
        start = self.force + h * self.lag
        return start, c.explicit(self.force, start)

    def pushes(self, c: Coefficients, h: Array) -> tuple[Array, Array]:
        """The same of accelerations."""
        start = self.push + h * self.push_lag
        return start, c.explicit(self.push, start)


class AlphaMemory(NamedTuple):
    """The memory from step to step.

    - `vdot`: accelerations of the smooth motion. - `shift`: (a - v̇)/h, where a is what the filter makes of them.
    - `labels`: of the contacts.
    - `mode`: `OPEN`, `STICK` or `SLIDE` of each. - `dissipation`: energy that all k contacts have taken, by kinds.
    """

    vdot: Vector
    shift: Vector
    labels: Int[Array, " c"]
    mode: Int[Array, " c"]
    contacts: SmoothContacts
    dissipation: Float[Array, "k 3"]

    @property
    def impulses(self) -> Float[Array, "c rows"]:
        """Impulses of the last step."""
        return self.contacts.impulses

    @property
    def pressed(self) -> Bool[Array, " c"]:
        """Contacts that carried a force in the last step."""
        return self.impulses[:, 0] > 0

    @classmethod
    def at_start(cls, n: int, labels: Int[Array, " c"], rows: int, k: int) -> Self:
        """Before the first step, where all contacts that touch are closed."""
        c = len(labels)
        forces, pushes, impulses = jnp.zeros((c, slip_rows(rows).stop)), jnp.zeros((c, n)), jnp.zeros((c, rows))
        mode = jnp.full(c, STICK, jnp.int32)
        contacts = SmoothContacts(forces, forces, pushes, pushes, impulses)
        return cls(jnp.zeros(n), jnp.zeros(n), labels, mode, contacts, jnp.zeros((k, 3)))
