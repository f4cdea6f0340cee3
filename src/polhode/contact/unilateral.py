"""The interface of unilateral constraints."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces.base import Vector
from polhode.systems.base import State

TOUCH_TOLERANCE = 1e-9
"""Gap up to which a contact takes part in simultaneous impacts, or in the equilibrium of forces at the start."""


class AbstractUnilateral(eqx.Module):
    r"""A gap $g(t, q) \ge 0$ between two parts, with a multiplier $\lambda \ge 0$ where it is closed.

    $0 \le g \perp \lambda \ge 0$ is Signorini's law; impacts follow Newton's law of restitution. The multiplier acts
    along the gradient of the gap, $M\dot v = f + W^T\lambda - B^T\mu$ with $W = \partial\dot g/\partial v$.

    - `gap`: (t, state, system) → g, which depends on time and q.
    - `restitution`: e, from 0 to 1.
    """

    gap: eqx.AbstractVar[Callable[[Array, State, Any], Array]]
    restitution: eqx.AbstractVar[Array]

    def rate(self, t: Array, state: State, system: Any) -> Array:
        """ġ = W v + ∂g/∂t."""
        q, v = state
        return _derivative(lambda s: self.gap(t + s, (system.flow(q, v, s), v), system))

    def row(self, t: Array, state: State, system: Any) -> Vector:
        """W, shape (n,)."""
        q, v = state
        return jax.grad(lambda u: self.rate(t, (q, u), system))(v)

    def curvature(self, t: Array, state: State, system: Any) -> Array:
        """The second derivative of the gap in time where v is frozen, so that g̈ = W v̇ + curvature."""
        q, v = state
        return _derivative(lambda s: self.rate(t + s, (system.flow(q, v, s), v), system))


def gaps(contacts: Sequence[AbstractUnilateral], t: Array, state: State, system: Any) -> Float[Array, " k"]:
    """All gaps."""
    return jnp.stack([contact.gap(t, state, system) for contact in contacts])


def rates(contacts: Sequence[AbstractUnilateral], t: Array, state: State, system: Any) -> Float[Array, " k"]:
    """All rates."""
    return jnp.stack([contact.rate(t, state, system) for contact in contacts])


def rows(contacts: Sequence[AbstractUnilateral], t: Array, state: State, system: Any) -> Float[Array, "k n"]:
    """All gradients W."""
    return jnp.stack([contact.row(t, state, system) for contact in contacts])


def curvatures(contacts: Sequence[AbstractUnilateral], t: Array, state: State, system: Any) -> Float[Array, " k"]:
    """Second time derivatives of all gaps at frozen velocities."""
    return jnp.stack([contact.curvature(t, state, system) for contact in contacts])


def _derivative(curve: Callable[[Array], Array]) -> Array:
    zero = jnp.zeros(())
    return jax.jvp(curve, (zero,), (jnp.ones(()),))[1]
