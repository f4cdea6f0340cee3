"""The equations behind a step: rates of the state, outputs, their derivatives, and responses to events.

They are what solvers of other programs need, which make steps of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.code_export.free_numbers import FreeNumbers, Values
from polhode.compiler.loops.single_call import SingleCall
from polhode.integrators.base import AbstractIntegrator
from polhode.result_codes import Result
from polhode.simulation.events.detection import EventDetectingStepper
from polhode.simulation.events.event_functions import EventFunctions, EventState
from polhode.simulation.stepping.stepper import AbstractStepper, Progress
from polhode.systems.base import AbstractSystem, State

_NEAR = 1e-9
"""Part of the step within which a function is zero: solvers end on either side of its zero."""

Parts = tuple[AbstractStepper, AbstractSystem, AbstractIntegrator]
"""Stepper, system and method."""


class EquationRequest(NamedTuple):
    """Which equations to record: those that solvers of other programs need, for `exchange`, and derivatives."""

    exchange: bool
    derivatives: tuple[str, ...]


class Equations(NamedTuple):
    """The equations of a model, as programs.

    - `rates`: of the numbers of the state. - `inspect`: the distance from the space of the state, and a `Result` code.
    - `project`: the state on its space. - `indicate`: functions of events. - `respond`: the carry after events, whether
      any has happened, and a `Result` code. None where solvers don't need them.
    - `along`, `back`: derivatives of rates and outputs; None if they are not requested.
    - `indicators`: number of functions of events. - `has_manifold`: whether numbers of states can leave their space.
    """

    rates: SingleCall | None
    inspect: SingleCall | None
    project: SingleCall | None
    indicate: SingleCall | None
    respond: SingleCall | None
    along: SingleCall | None
    back: SingleCall | None
    indicators: int
    has_manifold: bool

    @property
    def calls(self) -> dict[str, SingleCall]:
        """The programs that there are, by name."""
        every = {key: getattr(self, key) for key in (*EXCHANGE, *DERIVATIVES)}
        return {key: call for key, call in every.items() if call is not None}

    @classmethod
    def of(
        cls,
        request: EquationRequest,
        free: FreeNumbers,
        carry: Any,
        parts: Callable[[Values, Any], Parts],
        observe: Callable[[Values, Any], dict[str, Array]],
    ) -> Equations:
        """Records the equations; derivatives without `exchange` are those of outputs alone.

        - `carry`: all that is kept between steps, at the start. - `parts`: stepper, system and method, and `observe`:
          outputs, for values of free numbers and a carry.
        """
        record = _Recorder(free, carry, parts, observe, request.exchange)
        linear = {key: getattr(record, key)() if key in request.derivatives else None for key in DERIVATIVES}
        if not request.exchange:
            return cls(*[None] * len(EXCHANGE), **linear, indicators=0, has_manifold=False)
        stepper, system, _ = parts(free.defaults, carry)
        count = len(stepper.functions.functions) if isinstance(stepper, EventDetectingStepper) else 0
        events = (record.indicate(), record.respond()) if count else (None, None)
        return cls(
            record.rates(),
            record.inspect(),
            record.project(),
            *events,
            **linear,
            indicators=count,
            has_manifold=_has_manifold(system, carry.progress.carry.state),
        )


EXCHANGE = ("rates", "inspect", "project", "indicate", "respond")
"""Programs for solvers of other programs."""

DERIVATIVES = ("along", "back")
"""Derivatives of the equations."""


class _Recorder:
    """Records functions of free numbers and the carry."""

    def __init__(
        self,
        free: FreeNumbers,
        carry: Any,
        parts: Callable[[Values, Any], Parts],
        observe: Callable[[Values, Any], dict[str, Array]],
        exchange: bool,
    ) -> None:
        self.carry, self.parts, self.observe, self.exchange = carry, parts, observe, exchange
        self.values = dict(zip(("parameters", "inputs"), free.defaults, strict=True))

    def _call(self, function: Callable[[Values, Any], Any]) -> SingleCall:
        def call(parameters: Any, inputs: Any, carry: Any) -> Any:
            return function((parameters, inputs), carry)

        return SingleCall.of(call, **self.values, carry=self.carry)

    def rates(self) -> SingleCall:
        return self._call(lambda values, carry: _rates(self.parts(values, carry)[1], *_now(carry)))

    def inspect(self) -> SingleCall:
        def inspect(values: Values, carry: Any) -> tuple[Array, Array]:
            system, (t, state) = self.parts(values, carry)[1], _now(carry)
            code = system.failure(t, state)
            distance = jnp.asarray(system.state_space.residual(state), float)
            return distance, jnp.asarray(0 if code is None else code, jnp.int64)

        return self._call(inspect)

    def project(self) -> SingleCall:
        return self._call(lambda values, carry: self.parts(values, carry)[1].state_space.project(_now(carry)[1]))

    def indicate(self) -> SingleCall:
        return self._call(lambda values, carry: _functions(self.parts(values, carry)[0])(*_now(carry)))

    def respond(self) -> SingleCall:
        return self._call(lambda values, carry: _respond(*self.parts(values, carry)[:2], carry))

    def _equations(self, values: Values, t: Array, state: State, carry: Any) -> tuple[Any, Any]:
        """Rates and outputs as functions of all that they depend on."""
        carry = _moved_to(carry, t, state)
        rates = _rates(self.parts(values, carry)[1], t, state) if self.exchange else ()
        return rates, self.observe(values, carry)

    def along(self) -> SingleCall:
        def along(parameters: Any, inputs: Any, carry: Any, *changes: Any) -> Any:
            d_parameters, d_inputs, d_t, d_state = changes
            function = lambda values, t, state: self._equations(values, t, state, carry)  # noqa: E731
            now, directions = _now(carry), ((d_parameters, d_inputs), d_t, d_state)
            return jax.jvp(function, ((parameters, inputs), *now), directions)[1]

        t, state = _now(self.carry)
        changes = {f"d_{key}": x for key, x in self.values.items()}
        return SingleCall.of(along, **self.values, carry=self.carry, **changes, d_t=np.float64(t), d_state=state)

    def back(self) -> SingleCall:
        def back(parameters: Any, inputs: Any, carry: Any, d_rates: Any, d_outputs: Any) -> Any:
            function = lambda values, t, state: self._equations(values, t, state, carry)  # noqa: E731
            values, d_t, d_state = jax.vjp(function, (parameters, inputs), *_now(carry))[1]((d_rates, d_outputs))
            return (*values, d_t, d_state)

        result = jax.eval_shape(
            lambda values, carry: self._equations(values, *_now(carry), carry), tuple(self.values.values()), self.carry
        )
        rates, outputs = jax.tree.map(lambda x: np.zeros(x.shape, x.dtype), result)
        return SingleCall.of(back, **self.values, carry=self.carry, d_rates=rates, d_outputs=outputs)


def _now(carry: Any) -> tuple[Array, State]:
    return carry.progress.t, carry.progress.carry.state


def _moved_to(carry: Any, t: Array, state: State) -> Any:
    p = carry.progress
    return carry._replace(progress=p._replace(t=t, carry=p.carry._replace(state=state)))


def _rates(system: AbstractSystem, t: Array, state: State) -> State:
    """The rates of the numbers that a state is stored in."""
    velocity = system.velocity(t, state)
    assert velocity is not None
    return jax.jvp(lambda s: system.state_space.move(state, s * velocity), (0.0,), (1.0,))[1]


def _functions(stepper: AbstractStepper) -> EventFunctions:
    assert isinstance(stepper, EventDetectingStepper)
    return stepper.functions


def _respond(stepper: AbstractStepper, system: AbstractSystem, carry: Any) -> tuple[Any, Array, Array]:
    """The carry after the events at its time, whether any has happened, and a `Result` code."""
    assert isinstance(stepper, EventDetectingStepper)
    assert stepper.responses is not None
    functions, (t, state) = stepper.functions, _now(carry)
    p: Progress = carry.progress
    events: EventState = p.events
    signs = _signs(functions, system, p, t, state)
    fired = functions.may_cross(events.signs) & (events.signs * signs < 0)
    response, events = stepper.responses(events._replace(fired=fired), t, state, system, functions.source)
    after = _signs(functions, system, p, t, response.state)
    # A gap that an impact has sent back stays positive, but for round-off.
    after = jnp.where(np.array(functions.unilateral), 1.0, jnp.where(after == 0, events.signs, after))
    code = jnp.where(response.valid, 0, int(Result.event_reached)).astype(jnp.int64)
    carry = _moved_to(carry, t, response.state)
    p = carry.progress._replace(events=events._replace(signs=after, fired=jnp.zeros_like(fired)))
    return carry._replace(progress=p), jnp.any(response.happened), code


def _signs(functions: EventFunctions, system: AbstractSystem, p: Progress, t: Array, state: State) -> Array:
    """Signs of the functions; of one about zero, that which it is about to have."""
    values, rates, _ = functions.motion(system, t, jnp.abs(p.h), state)
    assert rates is not None
    return jnp.where(jnp.abs(values) <= _NEAR * jnp.abs(p.h * rates), jnp.sign(rates), jnp.sign(values))


def _has_manifold(system: AbstractSystem, state: State) -> bool:
    """Whether other numbers are no state: those of rotations are, angles aren't."""
    other = jax.tree.map(lambda x: 1.001 * np.asarray(x) + 1e-3, state)
    return bool(system.state_space.residual(other) > 1e-6)
