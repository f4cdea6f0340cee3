"""Impacts: velocities that jump along the gradient of a gap, by the law of restitution."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.checks import short_repr
from polhode.contact import AbstractUnilateral
from polhode.contact.response import impact as impact_of
from polhode.events.event import Event, Function
from polhode.systems.base import AbstractSystem, State
from polhode.systems.conversion import AbstractReformulation
from polhode.systems.mechanical import AbstractMechanical

if TYPE_CHECKING:
    from polhode.joints.named_coordinates import AbstractMeasured

_HINT = "With another kind of system write the action yourself: polhode.Event(function, action)."


class Impact(AbstractUnilateral):
    r"""The action of an impact: the impulse along the gradient of a gap that reverses its rate.

    $M(v^+ - v^-) = G^T\Lambda - B^T\mu$, $B(v^+ - v^-) = 0$ and $\dot g^+ = -e\,\dot g^-$ with the gap g and
    $\dot g = Gv + ∂g/∂t$: Newton's law of restitution for one contact without friction (Pfeiffer and Glocker, Multibody
    Dynamics with Unilateral Contacts, 1996, ch. 6). With e = 1 it keeps the energy, unless joints are driven.
    Gaps that are closed at the same instant are solved together (`polhode.contact.response`).

    **Arguments:**

    - `gap`: (t, state, system) → one number that depends on time and q, positive while apart.
    - `restitution`: e, from 0 to 1.
    - `rests`: whether the contact may stay closed. - `beside`: the other contacts of the run.
    """

    gap: Callable[[Array, State, Any], Array]
    restitution: Array
    rests: bool = eqx.field(static=True, default=False)
    beside: tuple[Impact, ...] = ()

    def __call__(self, t: Array, state: State, system: Any) -> State:
        if isinstance(system, AbstractReformulation):
            return system.start(*_on_base_states(self, system)(t, system.to_base(state), system.base))
        q, v = state
        if self.beside:
            return q, impact_of((self, *self.beside), t, state, system)
        B, zero = system.jacobian(t, q), jnp.zeros(system.m)
        rate, along = jax.value_and_grad(lambda v: self.rate(t, (q, v), system))(v)
        x, _ = system.kkt.solution(system.mass(t, q), B, B, along, zero)
        # Gaps that open already, by round-off where impacts accumulate, have no impulse.
        return q, v - (1 + self.restitution) * jnp.minimum(rate, 0.0) / (along @ x) * x


class _SlowContact(eqx.Module):
    """An event function that crosses zero where a gap closes slowly."""

    impact: Impact
    speed: Array

    def __call__(self, t: Array, state: State, system: Any) -> Array:
        impact = self.impact
        if isinstance(system, AbstractReformulation):
            impact, state, system = _on_base_states(impact, system), system.to_base(state), system.base
        # In the unit of the gap, so that the larger of both is a gap, too.
        return jnp.maximum(impact.gap(t, state, system), -impact.rate(t, state, system) - self.speed)


class _BaseGap(eqx.Module):
    """A gap of states of a reformulation, as a function of states of its base."""

    gap: Callable[[Array, State, Any], Array]
    reformulation: AbstractReformulation

    def __call__(self, t: Array, state: State, system: Any) -> Array:
        del system
        return self.gap(t, self.reformulation.start(*state), self.reformulation)


def _on_base_states(impact: Impact, reformulation: AbstractReformulation) -> Impact:
    """The impact as a function of states (q, v) of the base, in which its impulse acts."""
    beside = tuple(_on_base_states(other, reformulation) for other in impact.beside)
    return dataclasses.replace(impact, gap=_BaseGap(impact.gap, reformulation), beside=beside)


def check_impact(event: Event, state: State, system: AbstractSystem) -> None:
    """Raises ValueError for systems without a mass matrix, and for gaps that depend on velocities."""
    if not isinstance(event.action, Impact):
        return
    if not isinstance(system.base if isinstance(system, AbstractReformulation) else system, AbstractMechanical):
        raise ValueError(
            f"Event `{event.name}` is an impact, which is for models and other systems with states (q, v) and a mass "
            f"matrix, and this is a {system.kind_name}. {_HINT}"
        )
    gap: Callable[..., Array] = event.action.gap
    if isinstance(system, AbstractReformulation):
        gap, state = _BaseGap(gap, system), jax.eval_shape(system.to_base, state)
    if depends_on_velocities(gap, state, system):
        raise ValueError(
            f"The gap of event `{event.name}` depends on velocities. It is called with (t, state), where state is "
            "(q, v), or with (t, state, system), and has to depend on t and q = state[0] only, so that its rate is "
            "that with which velocities change it."
        )


def depends_on_velocities(function: Callable[..., Array], state: State, system: Any) -> bool:
    """Whether a function of time, state and system depends on the velocities of a state (q, v)."""
    q, v = state
    program = jax.make_jaxpr(lambda v, t, q: function(t, (q, v), system))(v, jnp.zeros(()), q)
    live = {id(x) for x in program.jaxpr.outvars}
    for equation in reversed(program.jaxpr.eqns):
        if any(id(x) in live for x in equation.outvars):
            live |= {id(x) for x in equation.invars}
    return any(id(x) in live for x in program.jaxpr.invars[: len(jax.tree.leaves(v))])


class _LimitDistance(eqx.Module):
    """The distance of a joint coordinate from a limit; `sign`: 1 for the lower, -1 for the upper one."""

    joint: AbstractMeasured
    limit: Array
    coordinate: str | None = eqx.field(static=True)
    sign: int = eqx.field(static=True)

    def __call__(self, t: Array, state: State, system: Any) -> Array:
        far = checks.is_concrete(self.limit) and abs(float(self.limit)) > np.pi
        if far and not self.joint.turns_are_known(system, state, self.coordinate):
            raise ValueError(
                f"A stop at {float(self.limit):g} rad is beyond half a turn, and its joint is no part of the model, so "
                "that nobody counts its turns. Add it to the model, or take the joint there that has this angle."
            )
        return self.sign * (self.joint.value(system, t, state, self.coordinate) - self.limit)


def impact(
    gap: Callable[..., Array],
    restitution: Any = 0.0,
    *,
    rests_below: Any = None,
    name: str = "impact",
    tolerance: float = 1e-12,
    inside: int = 7,
) -> list[Event]:
    """Events at which a gap closes and velocities jump by the law of restitution, for `simulate`.

    For systems with states (q, v): models in any coordinates, bodies with constraints.

    **Arguments:**

    - `gap`: (t, state) or (t, state, system) → the distance, positive while apart. It may depend on time and on the
      positions in `state`, which are q = state[0] of a state (q, v), and not on velocities.
    - `restitution`: e, from 0 (no rebound) to 1 (no loss).
    - `rests_below`: closing speed below which the run ends, in an event named "… at rest"; otherwise impacts with
      e < 1 accumulate until the run ends with an error.
    - `name`, `tolerance`, `inside`: as for `polhode.Event`.

    Raises ValueError for invalid values; `simulate` does for gaps that depend on velocities, and for systems
    without a mass matrix.
    """
    e = checks.array("restitution", restitution, (), "of an impact")
    if checks.is_concrete(e) and not 0 <= float(e) <= 1:
        raise ValueError(f"`restitution` must be from 0 to 1, got {short_repr(restitution)}.")
    action = Impact(Function(gap), e, rests=rests_below is None)
    options: dict[str, Any] = {"direction": -1, "tolerance": tolerance, "inside": inside}
    events = [Event(action.gap, action, name=name, **options)]
    if rests_below is not None:
        at_rest = _SlowContact(action, checks.positive("rests_below", rests_below, (), "speed of closing"))
        events.insert(0, Event(at_rest, terminal=True, name=f"{name} at rest", **options))
    return events


def stop(
    joint: AbstractMeasured,
    lower: Any = -np.inf,
    upper: Any = np.inf,
    restitution: Any = 0.0,
    *,
    coordinate: str | None = None,
    rests_below: Any = None,
    name: str = "stop",
    tolerance: float = 1e-12,
) -> list[Event]:
    """Rigid stops at the ends of the range of a joint coordinate, for `simulate`.

    The impulse acts along the joint, through the mass matrix and the other joints of the model, in any coordinates.

    **Arguments:**

    - `joint`: a joint with a free coordinate, of a model or of its own.
    - `lower`, `upper`: limits of the coordinate, which is 0 at the start, or where the joint's file has its zero.
      Angles count turns.
    - `coordinate`: which one, if the joint has several.
    - `restitution`, `rests_below`, `tolerance`: as for `impact`. - `name`: of the events, "… lower" and "… upper".

    Raises ValueError for invalid values.
    """
    if not hasattr(joint, "value"):
        raise ValueError(
            f"`joint` must be a joint with a free coordinate, such as `Revolute`, got {short_repr(joint)}."
        )
    joint.coordinate(coordinate)
    low, high = (_limit(word, x) for word, x in (("lower", lower), ("upper", upper)))
    if checks.is_concrete(low, high) and not low < high:
        raise ValueError(f"`lower` must be below `upper`, got {low:g} and {high:g}.")
    events: list[Event] = []
    for word, limit, sign in (("lower", low, 1), ("upper", high, -1)):
        if not checks.is_concrete(limit) or np.isfinite(limit):
            gap = _LimitDistance(joint, jnp.asarray(limit), coordinate, sign)
            options: dict[str, Any] = {"rests_below": rests_below, "tolerance": tolerance}
            events += impact(gap, restitution, name=f"{name} {word}", **options)
    if not events:
        raise ValueError("A stop needs `lower` or `upper`.")
    return events


def _limit(name: str, value: Any) -> Any:
    """A limit of a coordinate, which may be infinite or traced."""
    return (
        float(checks.numbers(name, value, "limit")) if checks.is_concrete(value) else checks.array(name, value, (), "")
    )
