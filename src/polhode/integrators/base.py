"""Interface of integrators: one-step maps whose whole memory is in the carry."""

from __future__ import annotations

import abc
from numbers import Real
from typing import Any, ClassVar, NamedTuple

import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.checks import short_repr
from polhode.modules import Module
from polhode.systems.base import AbstractSystem, State


class Carry(NamedTuple):
    """State and memory of a method between steps.

    - `state`: the state at the present time.
    - `memory`: whatever else the method remembers (first-same-as-last value, accelerations, factorisations).
    - `multipliers`: constraint multipliers of shape (m,), or None.
    """

    state: State
    memory: Any = None
    multipliers: Array | None = None


class Estimate(NamedTuple):
    """Local error estimate for another order, in the form of `StepInfo.error`, and that order."""

    error: Array
    order: Array


class VelocityJump(NamedTuple):
    """A jump of velocities at the fraction `share` of a step, with the states before and after it; 1 for none."""

    share: Array
    before: State
    after: State


class StepInfo(NamedTuple):
    """Information about one step. Fields that a method does not provide stay None and cost nothing.

    - `result`: a `Result` code as int32; None means that the step cannot fail by itself.
    - `error`: local error estimate in the algebra of `system.state_space`.
    - `newton_iterations`: int32.
    - `residual`: final residual of the nonlinear solve.
    - `order`: of this step, if it is not that of the method.
    - `others`: estimates for other orders, from which `AbstractIntegrator.select_order` selects.
    """

    result: Array | None = None
    error: Array | None = None
    newton_iterations: Array | None = None
    residual: Array | None = None
    order: Array | None = None
    others: tuple[Estimate, ...] = ()


def plain_number(name: str, value: Any, meaning: str) -> float:
    """`value`, checked to be a finite number and no array: options are static, and arrays have no hash."""
    number = checks.number(name, value, meaning)
    if not isinstance(value, Real):
        raise ValueError(f"`{name}` must be a number ({meaning}), got {short_repr(value)}.")
    return number


class AbstractIntegrator(Module):
    """A one-step map on the state of a system.

    Class variables tell `simulate`, the audit and the tests what to expect:

    - `kinds`: the system classes that the method takes.
    - `promises`: quantity → how well it is kept: "round-off", "newton" (to the tolerance of the nonlinear solve)
      or "bounded" (no drift). Quantities are residual names ("manifold", "position", "velocity"), invariant names,
      or "action invariants" for what the Lie group action itself conserves.
    - `promises_at_steps`: whether all of them hold at the ends of steps only, not for interpolated states.
    - `one_step`: whether each step starts from the state alone, so that constant steps may differ from each other, and
      a kink of a load, where a step ends, needs no restart.
    - `divisible`: whether a step may be made in parts of different lengths, where loads come into force within a short
      way: no method that conserves by equal steps, or remembers several. See `after_part`.
    - `takes_contacts`: whether steps impose unilateral laws of contact and friction.
    - `needs_contacts`: whether it takes only systems with such contacts.
    - `takes_holds`: whether steps impose dry friction with bounds of its own (`ContactKinematics.hold`).
    - `takes_grips`: whether these bounds may be elastic forces, as those of compliant contacts.
    - `takes_bearings`: whether these bounds may grow with forces of joints.
    - `starts_by_trial`: whether `init` takes a step, which loops may take in its place by the program of their steps;
      see `before_trial`.
    - `has_momentary_multipliers`: whether multipliers are those of the accelerations at the end of a step, so that
      there are such within it, too; otherwise those of a step stand for all of it.
    - `locates_contacts`: whether runs end its steps where contacts change their modes, because it holds these.
    """

    kinds: ClassVar[tuple[type[AbstractSystem], ...]]
    promises: ClassVar[dict[str, str]]
    promises_at_steps: ClassVar[bool] = False
    one_step: ClassVar[bool] = False
    divisible: ClassVar[bool] = False
    takes_contacts: ClassVar[bool] = False
    needs_contacts: ClassVar[bool] = False
    takes_holds: ClassVar[bool] = False
    takes_grips: ClassVar[bool] = False
    takes_bearings: ClassVar[bool] = False
    starts_by_trial: ClassVar[bool] = False
    has_momentary_multipliers: ClassVar[bool] = False
    locates_contacts: ClassVar[bool] = False

    def promises_for(self, system: AbstractSystem, state: State) -> dict[str, str]:
        """`promises` for one system: names in place of "action invariants", and momenta of its symmetries."""
        promises = dict(self.promises)
        level = promises.pop("action invariants", None)
        if level is not None:
            promises.update(dict.fromkeys(system.state_space.invariants(state), level))
        return promises

    @property
    @abc.abstractmethod
    def order(self) -> int:
        """Order of convergence of the state."""

    @property
    def error_order(self) -> int | None:
        """Order of the embedded solution that gives `StepInfo.error`; None if there is no estimate."""
        return None

    @property
    def first_order(self) -> int:
        """Order of the first step under step control."""
        return self.order

    @property
    def symmetric(self) -> bool:
        """Whether a step with -h undoes one with h, which compositions need."""
        return False

    @property
    def implicit(self) -> bool:
        """Whether steps solve equations in the forces, so that stiffness doesn't limit them."""
        return False

    @property
    @abc.abstractmethod
    def evaluations(self) -> int:
        """Evaluations of the right-hand side in one step, besides one for each Newton iteration."""

    @property
    def interpolation_order(self) -> int:
        """Order of `interpolate`: its error is O(h^(order+1)) within a step."""
        return 3

    def for_system(self, system: AbstractSystem) -> AbstractIntegrator:
        """The form in which the method takes a system: itself, or another class of the same name and options."""
        del system
        return self

    def for_changing_steps(self, system: AbstractSystem) -> AbstractIntegrator:
        """The method with the options that suit steps of different lengths, as of tolerances and of events."""
        del system
        return self

    @property
    def plain(self) -> AbstractIntegrator:
        """The method of which this is a form that `for_system` has given; itself otherwise."""
        return self

    def check(self, system: AbstractSystem, t: Any, state: State) -> None:
        """Check a system of these kinds before compilation. Raises ValueError if the method can't take it."""
        del system, t, state

    @abc.abstractmethod
    def init(self, system: AbstractSystem, t: Array, h: Array, state: State) -> Carry:
        """The carry at the start, from the initial state."""

    def before_trial(self, system: AbstractSystem, state: State) -> Carry:
        """The carry from which methods that start by a trial step take it; of others that before `init`."""
        del system
        return Carry(state)

    def after_trial(self, system: AbstractSystem, t: Array, before: Carry, trial: Carry) -> Carry:
        """The carry of `init` at t, from the one before a trial step and the one after it."""
        del system, t, trial
        return before

    def restart(self, system: AbstractSystem, t: Array, h: Array, carry: Carry) -> Carry:
        """The carry after a jump of the loads at t: the method's memory is rebuilt."""
        return self.init(system, t, h, carry.state)

    def after_part(self, system: AbstractSystem, t: Array, carry: Carry) -> Carry:
        """The carry after a part of a divided step that ended at t, for a part or step of any other length.

        Methods whose memory does not depend on the length of their last step have nothing to do.
        """
        del system, t
        return carry

    def with_step_control(self, system: AbstractSystem, t: Array, h: Array, carry: Carry) -> Carry:
        """The carry of `init` or `restart` for step size control that starts with about h."""
        del system, t, h
        return carry

    def select_order(self, carry: Carry, factors: tuple[Array, ...], accepted: bool) -> tuple[Carry, Array]:
        """The carry with the order of the next step, and the factor of its size; used if there are `StepInfo.others`.

        `factors`: of the step size by `StepInfo.error`, and by each of the others.
        `carry`: after the step, or before it if the step is not `accepted`.
        """
        del accepted
        return carry, factors[0]

    def selected_order(self, carry: Carry) -> Any:
        """Order of the step that ended with `carry`. None for methods of one order.

        Derivatives keep it constant, like the size of the step.
        """
        del carry
        return None

    def with_order(self, carry: Carry, order: Any) -> Carry:
        """The same carry for a step of that order."""
        del order
        return carry

    def newton_tolerance(self, h: float | None) -> float:
        """Tolerance of "newton" promises with steps h, relative to the state; see `polhode.results.audit`."""
        del h
        return float(np.finfo(float).eps)

    @abc.abstractmethod
    def step(self, system: AbstractSystem, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        """One step from t to t + h."""

    def jump_within(self, system: AbstractSystem, h: Array, carry0: Carry, carry1: Carry) -> VelocityJump | None:
        """The impact that the method has located in the step between two carries; None of methods without such ones.

        Between the start of a step, the impact and the end motions are smooth.
        """
        del system, h, carry0, carry1
        return None

    @abc.abstractmethod
    def interpolate(self, system: AbstractSystem, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array) -> State:
        """The state at t + s·h, s in [0, 1], between two consecutive carries; it lies on the space."""

    def multipliers_within(self, system: Any, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array) -> Any:
        """The multipliers at t + s·h: steps may be long, and multipliers change in them."""
        if not self.has_momentary_multipliers:
            return carry1.multipliers
        return system.multipliers_at(t + s * h, self.interpolate(system, t, h, carry0, carry1, s))


class AbstractSymmetricSecondOrder(AbstractIntegrator):
    """A method of order 2 of which a step with -h undoes one with h."""

    @property
    def order(self) -> int:
        return 2

    @property
    def symmetric(self) -> bool:
        return True

    @property
    def evaluations(self) -> int:
        """One to begin with; each of `StepInfo.newton_iterations` adds one."""
        return 1
