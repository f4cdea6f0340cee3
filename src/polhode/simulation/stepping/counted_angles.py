"""Steps of a method on systems that count something along the motion, such as the turns of joints.

Loops call methods through these functions, so that methods are independent of the counting.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jaxtyping import Array

from polhode.integrators.base import AbstractIntegrator, Carry, StepInfo, VelocityJump
from polhode.systems.base import AbstractSystem, State


def init(integrator: AbstractIntegrator, system: AbstractSystem, t: Array, h: Array, state: State) -> Carry:
    """The carry at the start."""
    carry = integrator.init(system.for_step_from(state), t, h, system.without_turns(state))
    return _with_counts(system, state, carry, 0.0)


def before_trial(integrator: AbstractIntegrator, system: AbstractSystem, state: State) -> Carry:
    """The carry from which a trial step is taken at the start."""
    carry = integrator.before_trial(system.for_step_from(state), system.without_turns(state))
    return _with_counts(system, state, carry, 0.0)


def after_trial(integrator: AbstractIntegrator, system: AbstractSystem, t: Array, before: Carry, trial: Carry) -> Carry:
    """The carry at the start, after that step."""
    ends = _bare(system, before), _bare(system, trial)
    return integrator.after_trial(system.for_step_from(before.state), t, *ends)._replace(state=before.state)


def restart(integrator: AbstractIntegrator, system: AbstractSystem, t: Array, h: Array, carry: Carry) -> Carry:
    """The carry after a restart where loads may jump."""
    after = integrator.restart(system.for_step_from(carry.state), t, h, _bare(system, carry))
    return _with_counts(system, carry.state, after, 0.0)


def step(
    integrator: AbstractIntegrator, system: AbstractSystem, t: Array, h: Array, carry: Carry
) -> tuple[Carry, StepInfo]:
    """One step from t to t + h."""
    after, info = integrator.step(system.for_step_from(carry.state), t, h, _bare(system, carry))
    after = _with_counts(system, carry.state, after, h)
    return after, _with_code(system.turn_failure(carry.state, after.state) if system.counts else None, info)


def after_part(integrator: AbstractIntegrator, system: AbstractSystem, t: Array, carry: Carry) -> Carry:
    """The carry after a part of a divided step that ended at t."""
    after = integrator.after_part(system.for_step_from(carry.state), t, _bare(system, carry))
    return _with_counts(system, carry.state, after, 0.0)


def jump_within(
    integrator: AbstractIntegrator, system: AbstractSystem, h: Array, carry0: Carry, carry1: Carry
) -> VelocityJump | None:
    """The impact that the method has located in a step."""
    ends = _bare(system, carry0), _bare(system, carry1)
    jump = integrator.jump_within(system.for_step_from(carry0.state), h, *ends)
    if jump is None or not system.counts:
        return jump
    before, after = (system.count_turns(carry0.state, x, jump.share * h) for x in (jump.before, jump.after))
    return VelocityJump(jump.share, before, after)


def interpolate(
    integrator: AbstractIntegrator,
    system: AbstractSystem,
    t: Array,
    h: Array,
    carry0: Carry,
    carry1: Carry,
    s: Array,
) -> State:
    """The state at t + s·h within a step."""
    ends = _bare(system, carry0), _bare(system, carry1)
    state = integrator.interpolate(system.for_step_from(carry0.state), t, h, *ends, s)
    return system.count_turns(carry0.state, state, s * h) if system.counts else state


def multipliers_within(
    integrator: AbstractIntegrator, system: AbstractSystem, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
) -> Any:
    """The multipliers at t + s·h within a step."""
    ends = _bare(system, carry0), _bare(system, carry1)
    return integrator.multipliers_within(system.for_step_from(carry0.state), t, h, *ends, s)


def _with_code(code: Array | None, info: StepInfo) -> StepInfo:
    if code is None or info.result is None:
        return info if code is None else info._replace(result=code)
    return info._replace(result=jnp.where(info.result != 0, info.result, code))


def _bare(system: AbstractSystem, carry: Carry) -> Carry:
    return carry._replace(state=system.without_turns(carry.state)) if system.counts else carry


def _with_counts(system: AbstractSystem, before: State, carry: Carry, h: Any) -> Carry:
    return carry._replace(state=system.count_turns(before, carry.state, h)) if system.counts else carry
