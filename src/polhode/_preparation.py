"""What is to be run: names resolved, input checked, the step size rule chosen."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from polhode import _host, integrators
from polhode._stepping import AbstractStepper, ConstantSteps, ControlledSteps
from polhode.control import StepControl, Tolerances
from polhode.integrators.base import AbstractIntegrator
from polhode.observing import Observer
from polhode.problems.base import Problem
from polhode.spaces.checks import check_point
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical


class Task(eqx.Module):
    """What is to be run, with names resolved and input checked."""

    system: AbstractSystem
    integrator: AbstractIntegrator
    integrator_name: str
    state0: State
    t0: float
    t1: float
    outputs: dict[str, Callable]
    invariants: dict[str, Callable]
    problem: Problem | None

    @classmethod
    def prepare(
        cls,
        problem: Problem | AbstractSystem,
        integrator: AbstractIntegrator | str | None,
        t0: float | None,
        t1: float | None,
        state0: State,
        tolerances: bool,
    ) -> Task:
        """Raises ValueError for input that can't be run; `tolerances` tells whether the error is to be controlled."""
        if isinstance(problem, str):
            raise ValueError(f"`problem` must be a Problem or a system; for a name use problems.get({problem!r}).")
        if not isinstance(problem, Problem | AbstractSystem):
            raise ValueError(f"`problem` must be a Problem or a system, got {type(problem).__name__}.")
        known = problem if isinstance(problem, Problem) else None
        given: Any = known
        given_system = problem.system if isinstance(problem, Problem) else problem
        if known is None and (state0 is None or t1 is None or integrator is None):
            raise ValueError("A bare system needs `integrator`, `state0` and `t1`; a Problem brings its own.")
        chosen = integrator if integrator is not None else _recommended(given, tolerances)
        name = chosen if isinstance(chosen, str) else type(chosen).__name__ if integrator else given.integrator
        method = integrators.get(chosen) if isinstance(chosen, str) else chosen
        if not isinstance(method, AbstractIntegrator):
            raise ValueError(f"`integrator` must be a name or an integrator, got {chosen!r}.")
        system = _convert(given_system, method, name)
        state = given.state0 if state0 is None else state0
        state = _checked(system, state)
        start = _time("t0", t0 if t0 is not None else known.t_span[0] if known else 0.0)
        end = _time("t1", t1 if t1 is not None else given.t_span[1])
        if end == start:
            raise ValueError(f"`t1` must differ from t0 = {start:g}; the span is empty.")
        method.check(system, start, state)
        given_system.check(start, state)
        # A conversion has the same state, but may know less about it.
        outputs = dict(known.outputs) if known else given_system.outputs()
        invariants = dict(known.invariants) if known else given_system.invariants()
        return cls(system, method, name, state, start, end, outputs, invariants, known)

    def describe(self, how: dict[str, Any], saving: _host.Saving, observer: Observer) -> dict[str, Any]:
        """Plain values that tell how the run was made."""
        from polhode import __version__

        return {
            "problem": self.problem.name if self.problem else None,
            "parameters": _plain(dict(self.problem.parameters)) if self.problem else {},
            "integrator": {
                "name": self.integrator_name,
                "class": type(self.integrator).__name__,
                "options": _options(self.integrator),
            },
            "order": self.integrator.order,
            "t0": self.t0,
            "t1": self.t1,
            **how,
            **({} if saving.at is None else {"between_steps": True}),
            **({"promises_at_steps": True} if self.integrator.promises_at_steps else {}),
            "promises": self.integrator.promised(self.system, self.state0),
            "version": __version__,
            **self._scene(),
        }

    def _scene(self) -> dict[str, Any]:
        """How to draw the run, where plain values say it all."""
        scene = self.problem.scene if self.problem else None
        return {} if scene is None or scene.description is None else {"scene": _plain(scene.description)}


def _checked(system: AbstractSystem, state: State) -> State:
    try:
        return check_point(system.state_space, state, "state0")
    except ValueError as error:
        raise ValueError(f"{error} {system.state_hint}".rstrip()) from None


def _recommended(problem: Problem, tolerances: bool) -> AbstractIntegrator | str:
    """The problem's method, or one like it that takes tolerances."""
    method, system = integrators.get(problem.integrator), problem.system
    constrained = isinstance(system, AbstractMechanical) and system.m > 0
    if not tolerances:
        return problem.integrator
    if constrained and isinstance(method, integrators.GeneralizedAlpha):
        # Velocities of index 3 depend on the step size, so its multipliers suffer at every change of step.
        return integrators.get(problem.integrator, constraint="stabilized-index-2")
    if method.error_order is not None:
        return problem.integrator
    return "herk54" if constrained else "rkmk54"


def _options(method: AbstractIntegrator) -> dict[str, Any]:
    """Numbers and words in which a method differs from the default of its class."""
    return {
        field.name: getattr(method, field.name)
        for field in dataclasses.fields(method)
        if field.default is not dataclasses.MISSING and getattr(method, field.name) != field.default
    }


def suits(method: AbstractIntegrator, system: AbstractSystem) -> bool:
    """Whether the method takes the system or a conversion of it."""
    return any(isinstance(candidate, method.kinds) for candidate in (system, *system.conversions()))


def _convert(system: AbstractSystem, method: AbstractIntegrator, name: str) -> AbstractSystem:
    """`system`, or the conversion of it that the method takes."""
    for candidate in (system, *system.conversions()):
        if isinstance(candidate, method.kinds):
            return candidate
    able = [n for n in integrators.names() if suits(integrators.get(n), system)]
    wanted = " or ".join(k.__name__ for k in method.kinds)
    raise ValueError(
        f"Integrator `{name}` takes {wanted} systems, and this {type(system).__name__} can't be written as one without "
        f"loss. Integrators for it: {', '.join(able) or 'none'}."
    )


def _time(name: str, value: Any) -> float:
    if isinstance(value, Tracer):
        raise ValueError(
            f"`{name}` is traced by JAX, but the number of steps is part of the program. Make it a plain number; for "
            "derivatives with respect to time, scale the vector field."
        )
    try:
        number = float(value)
    except (TypeError, ValueError) as error:
        raise ValueError(f"`{name}` must be a number, got {value!r}.") from error
    if not math.isfinite(number):
        raise ValueError(f"`{name}` must be finite, got {number}.")
    return number


def _positive(name: str, value: Any, remedy: str) -> float:
    number = _time(name, value)
    if number <= 0:
        raise ValueError(f"`{name}` must be positive, got {number:g}. {remedy}")
    return number


def saving(every: int | None, at: Any, t0: float, t1: float) -> _host.Saving:
    """Which instants are kept. Raises ValueError for times that don't fit the span."""
    if at is not None:
        if isinstance(at, Tracer):
            raise ValueError("`save_at` is traced by JAX; give plain numbers or a NumPy array.")
        try:
            times = np.atleast_1d(np.asarray(at, dtype=float))
        except (TypeError, ValueError) as error:
            raise ValueError(f"`save_at` must be numbers, got {at!r}.") from error
        low, high = min(t0, t1), max(t0, t1)
        if times.ndim != 1 or len(times) == 0 or not np.isfinite(times).all():
            raise ValueError(f"`save_at` must be a non-empty list of finite times, got {at!r}.")
        if (np.diff(times) * np.sign(t1 - t0) <= 0).any():
            raise ValueError("`save_at` must run strictly from t0 towards t1; sort it and drop repeated times.")
        if times.min() < low - 1e-12 * (high - low) or times.max() > high + 1e-12 * (high - low):
            raise ValueError(
                f"`save_at` holds {times.min():g} … {times.max():g}, outside the span [{low:g}, {high:g}]."
            )
        return _host.Saving(None, np.clip(times, low, high))
    if every is not None and (not isinstance(every, int | np.integer) or every < 1):
        raise ValueError(f"`save_every` must be a positive whole number of steps or None, got {every!r}.")
    return _host.Saving(None if every is None else int(every), None)


def stepper(
    task: Task, h: Any, rtol: Any, atol: Any, control: StepControl, max_steps: int
) -> tuple[AbstractStepper, dict[str, Any]]:
    """The step size rule, and how it is described. Raises ValueError for sizes and tolerances that make no sense."""
    t0, t1, span = task.t0, task.t1, abs(task.t1 - task.t0)
    if h is not None and (rtol is not None or atol is not None):
        raise ValueError(f"Got both a constant step h = {h} and tolerances; give `h`, or `rtol` and `atol`.")
    if h is None and rtol is None and atol is None:
        if task.problem is None:
            raise ValueError("Give a constant step `h`, or tolerances `rtol` and `atol`.")
        h = min(task.problem.h, span)
    if h is not None:
        h = _positive("h", h, "Set the direction of time by t1.")
        if h > span * (1 + 1e-12):
            raise ValueError(f"`h` = {h:g} is larger than the span {span:g} from t0 to t1; take a smaller step.")
        if span / h > 2**53:
            raise ValueError(f"`h` = {h:g} needs {span / h:.3g} steps for the span {span:g}; take a larger step.")
        count = math.ceil(span / h * (1 - 1e-12))
        step = (t1 - t0) / count
        return ConstantSteps(*map(np.asarray, (t0, t1, step, count))), {"h": step}
    if task.integrator.error_order is None:
        estimating = {n: m for n in integrators.names() if (m := integrators.get(n)).error_order is not None}
        able = [n for n, method in estimating.items() if suits(method, task.system)]
        raise ValueError(
            f"Integrator `{task.integrator_name}` has no error estimate, so it can't take tolerances. Give `h`"
            f"{', or use one of ' + ', '.join(able) if able else ''}."
        )
    rtol = 0.0 if rtol is None else _time("rtol", rtol)
    atol = rtol / 100 if atol is None else _time("atol", atol)
    if rtol < 0 or atol < 0 or rtol + atol == 0:
        raise ValueError(f"`rtol` and `atol` must not be negative and not both zero, got {rtol:g} and {atol:g}.")
    start, end, *tolerances = map(np.asarray, (t0, t1, rtol, atol))
    stepper = ControlledSteps(start, end, Tolerances(*tolerances), control, np.asarray(max_steps))
    return stepper, {"rtol": rtol, "atol": atol}


def _plain(value: Any) -> Any:
    """Values that survive JSON: arrays become lists, tracers their description."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Tracer):
        return "traced"
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return np.asarray(value).tolist()
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
