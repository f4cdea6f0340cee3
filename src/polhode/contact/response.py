"""Simultaneous impacts of several contacts, and the active set after them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array, Bool, Float

from polhode.contact.complementarity import complement, solve_basic
from polhode.contact.unilateral import TOUCH_TOLERANCE, AbstractUnilateral, curvatures, gaps, rates, rows
from polhode.linalg.blocks import apply
from polhode.spaces.base import Vector
from polhode.systems.base import State

_ROUND_OFF = 1e-9
"""Part of the largest speed, or acceleration, of the contacts that counts as zero."""

_EXACT = 1e-13
"""Part of the largest speed by which impulses may leave a contact closing."""

_APART = 1e-12
"""Part of its own effect up to which an impulse has none on another contact."""

_STILL = 1e-12
"""The same of the speed of the whole system."""


class Response(NamedTuple):
    """The velocity after an impact, its impulses, and the active set."""

    velocity: Vector
    impulses: Float[Array, " k"]
    closed: Bool[Array, " k"]


class _Contacts(NamedTuple):
    """Contacts in a position, scaled so that each is a unit of its own effective mass.

    - `scale`: 1/√(W A⁻¹Wᵀ), zero for a contact that no motion opens. - `velocity_changes`: rows A⁻¹Wᵀ, where A⁻¹ keeps
      the constraints of the system. - `delassus`: W A⁻¹Wᵀ, ones on its diagonal.
    """

    contacts: Sequence[AbstractUnilateral]
    scale: Float[Array, " k"]
    rows: Float[Array, "k n"]
    velocity_changes: Float[Array, "k n"]
    delassus: Float[Array, "k k"]

    @classmethod
    def at(cls, contacts: Sequence[AbstractUnilateral], t: Array, state: State, system: Any) -> _Contacts:
        q, _ = state
        B, M, zero = system.jacobian(t, q), system.mass(t, q), jnp.zeros(system.m)
        W = rows(contacts, t, state, system)
        X = jnp.stack([system.kkt.solution(M, B, B, row, zero)[0] for row in W])
        own = jnp.sum(W * X, axis=1)
        scale = jnp.where(own > 0, 1 / jnp.sqrt(jnp.where(own > 0, own, 1.0)), 0.0)
        W, X = scale[:, None] * W, scale[:, None] * X
        return cls(contacts, scale, W, X, W @ X.T)

    def rates(self, t: Array, state: State, system: Any) -> Float[Array, " k"]:
        return self.scale * rates(self.contacts, t, state, system)

    def accelerations(self, t: Array, state: State, system: Any) -> tuple[Float[Array, " k"], Array]:
        """Second derivatives of the gaps without contact forces, and the tolerance below which they count as zero."""
        vdot, _ = system.accelerations(t, *state)
        second_rates = self.rows @ vdot + self.scale * curvatures(self.contacts, t, state, system)
        return second_rates, _ROUND_OFF * jnp.max(jnp.abs(second_rates)) + _STILL * _norm(system, t, state[0], vdot)


def impact(contacts: Sequence[AbstractUnilateral], t: Array, state: State, system: Any) -> Vector:
    r"""The velocity after an impact at the first contact and all touching contacts coupled with it; none stays closed.

    Newton's law for all of them at once: $0 \le \xi \perp P \ge 0$ with $\xi = \dot g^+ + e\min(\dot g^-, 0)$.
    Independent contacts that touch at the same instant have events and derivatives of their own.
    """
    _, v = state
    now = _Contacts.at(contacts, t, state, system)
    touching = gaps(contacts, t, state, system) <= TOUCH_TOLERANCE
    touching = _coupled_contacts(now.delassus, touching)
    impulses = _impulses(now, now.rates(t, state, system), _restitutions(contacts), touching)
    return v + impulses @ now.velocity_changes


def respond(
    contacts: Sequence[AbstractUnilateral],
    t: Array,
    state: State,
    system: Any,
    closed: Bool[Array, " k"],
    opening: Bool[Array, " k"],
    shortest: Array,
    *,
    begins: bool = False,
) -> Response:
    r"""Velocity after an impact and the active set: $0 \le \ddot g \perp \lambda \ge 0$ for all that touch and rest.

    - `closed`: the active set before. - `opening`: members of it without contact force.
    - `shortest`: a contact rests instead of bouncing where its flight would be shorter than this time.
    - `begins`: whether a run begins here, so that approaching contacts have no impact.
    """
    q, v = state
    now = _Contacts.at(contacts, t, state, system)
    u, (a, _) = now.rates(t, state, system), now.accelerations(t, state, system)
    apart = gaps(contacts, t, state, system)
    touching = closed | (apart <= TOUCH_TOLERANCE)
    still = _STILL * _norm(system, t, q, v)
    # Rates of closed gaps are round-off, which is no impact.
    u = jnp.where(jnp.abs(u) <= still, 0.0, u)
    slow = 0.5 * shortest * jnp.max(jnp.abs(a)) + _ROUND_OFF * jnp.max(jnp.abs(u)) + still
    if begins:
        touching = touching & (u >= -slow) & (apart >= -TOUCH_TOLERANCE)
        impulses = jnp.zeros_like(u)
    else:
        e = _restitutions(contacts)
        a_in_contact = a + now.delassus @ solve_basic(now.delassus, a, closed)
        rests = 2 * e * jnp.abs(u) <= shortest * jnp.maximum(-a_in_contact, 0.0)
        impulses = _impulses(now, u, jnp.where(rests, 0.0, e), touching)
    v = v + impulses @ now.velocity_changes
    after, (a, tolerance) = u + now.delassus @ impulses, now.accelerations(t, (q, v), system)
    resting = touching & (after <= slow) & (now.scale > 0)
    stay = closed & resting & ~opening
    stay = stay & (solve_basic(now.delassus, a, stay) > tolerance)
    # Impulses of closed contacts are round-off, which must not keep contacts without force closed.
    hit = resting & (impulses > 0) & ~closed
    _, active = complement(now.delassus, a, resting, stay | hit, tolerance)
    rest = solve_basic(now.delassus, after, active)
    return Response(v + rest @ now.velocity_changes, now.scale * (impulses + rest), active)


def _coupled_contacts(delassus: Float[Array, "k k"], active: Bool[Array, " k"]) -> Bool[Array, " k"]:
    """The first contact and those of `active` that are coupled with it, directly or through others."""
    near = (jnp.abs(delassus) > _APART) & active & active[:, None] | jnp.eye(len(active), dtype=bool)
    for _ in range((len(active) - 1).bit_length()):
        near = jnp.any(near[:, :, None] & near[None], axis=1)
    return near[0]


def _restitutions(contacts: Sequence[AbstractUnilateral]) -> Float[Array, " k"]:
    return jnp.stack([jnp.asarray(contact.restitution, float) for contact in contacts])


def _impulses(
    now: _Contacts, u: Float[Array, " k"], e: Float[Array, " k"], touching: Bool[Array, " k"]
) -> Float[Array, " k"]:
    b = u + e * jnp.minimum(u, 0.0)
    tolerance = _EXACT * jnp.max(jnp.abs(jnp.where(touching, u, 0.0)))
    return complement(now.delassus, b, touching & (now.scale > 0), u < 0, tolerance).z


def _norm(system: Any, t: Array, q: Any, x: Vector) -> Float[Array, ""]:
    """√(xᵀMx), the norm of the scaled contacts."""
    return jnp.sqrt(jnp.abs(x @ apply(system.mass(t, q), x, system.n)))
