"""What is to be run: names resolved, input checked, the step size rule chosen."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import equinox as eqx
import jax
import numpy as np
from jax.core import Tracer

from polhode import checks, integrators
from polhode.checks import shown
from polhode.driver import host, legs
from polhode.driver.control import StepControl
from polhode.driver.legs import Leg
from polhode.driver.observing import Observer
from polhode.driver.recorded import recorded
from polhode.execution.eager import uncompiled
from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.suited import Unsuited, Written, suits, written
from polhode.problems.base import Problem
from polhode.problems.choice import ASKED
from polhode.spaces.checks import check_point
from polhode.systems.base import AbstractSystem, State
from polhode.systems.conversion import Converted
from polhode.systems.mechanical import AbstractMechanical

if TYPE_CHECKING:
    from polhode.driver.continuing import Memory


class Task(eqx.Module):
    """What is to be run, with names resolved and input checked.

    - `source`: the system that was given. - `converted`: the same as the method takes it, of which `state0` is a state.
    - `outputs`, `invariants`: of states of `source`. - `note`: what is to be said of the conversion; may be empty.
    """

    converted: Converted
    source: AbstractSystem
    integrator: AbstractIntegrator
    integrator_name: str
    state0: State
    t0: float
    t1: float
    outputs: dict[str, Callable]
    invariants: dict[str, Callable]
    problem: Problem | None
    note: str

    @property
    def system(self) -> AbstractSystem:
        """What the method steps."""
        return self.converted.system

    @property
    def observer(self) -> Observer:
        """All that is reported about states of `system`."""
        watched = self.converted.watched
        outputs, invariants = ({k: watched(f) for k, f in part.items()} for part in (self.outputs, self.invariants))
        if self.converted.back is None:
            return Observer(self.source, outputs, invariants)
        # Of what is kept, a system of another kind may know more: its momenta need not follow from the velocities.
        own = {name: f for name, f in self.system.invariants().items() if name in invariants}
        return Observer(self.system, outputs, {**invariants, **own}, watched(self.source.residuals))

    @classmethod
    @uncompiled()
    def prepare(
        cls,
        problem: Problem | AbstractSystem,
        integrator: AbstractIntegrator | str | None,
        t0: float | None,
        t1: float | None,
        state0: State,
        *,
        tolerances: bool = False,
        memory: Memory | None = None,
    ) -> Task:
        """Raises ValueError for input that can't be run; `tolerances` tells whether the error is to be controlled.

        `memory` is the run in whose end this one begins; its states need not pass for starts of their own.
        """
        if isinstance(problem, str):
            raise ValueError(f"`problem` must be a Problem or a system; for a name use problems.get({shown(problem)}).")
        if not isinstance(problem, Problem | AbstractSystem):
            raise ValueError(f"`problem` must be a Problem or a system, got {type(problem).__name__}.")
        known = problem if isinstance(problem, Problem) else None
        given: Any = known
        given_system = problem.system if isinstance(problem, Problem) else problem
        if memory is not None:
            t0, state0 = memory.t, memory.state
            integrator = memory.method if integrator is None else integrator
        if known is None and (state0 is None or t1 is None or integrator is None):
            raise ValueError("A bare system needs `integrator`, `state0` and `t1`; a Problem brings its own.")
        chosen = integrator if integrator is not None else _recommended(given, tolerances)
        method = integrators.get(chosen) if isinstance(chosen, str) else chosen
        if not isinstance(method, AbstractIntegrator):
            raise ValueError(f"`integrator` must be a name or an integrator, got {shown(chosen)}.")
        name = chosen if isinstance(chosen, str) else given.integrator if integrator is None else _called(method)
        start = _time("t0", t0 if t0 is not None else known.t_span[0] if known else 0.0)
        end = _time("t1", t1 if t1 is not None else given.t_span[1])
        if end == start:
            raise ValueError(f"`t1` must differ from t0 = {start:g}; the span is empty.")
        given_state = given.state0 if state0 is None else state0
        if memory is None:
            given_state = _checked(given_system, given_state)
            before = None
        else:
            before = memory.before(given_system, known, start)
            given_state = before.left(given_state)
        found, note = _written(given_system, method, name, start, given_state)
        # What the same kind of system knows of the state is not to be rounded on a way there and back.
        same = before is not None and type(before.system) is type(found.system)
        state = state0 if same else found.entered(given_state)
        method.check(found.system, start, state)
        if memory is None:
            given_system.check(start, given_state)
        outputs = dict(known.outputs) if known else given_system.outputs()
        invariants = dict(known.invariants) if known else given_system.invariants()
        return cls(found, given_system, method, name, state, start, end, outputs, invariants, known, note)

    def describe(self, plan: Plan, saving: host.Saving) -> dict[str, Any]:
        """Plain values that tell how the run was made."""
        from polhode import __version__

        return {
            **self.known(),
            **self._choice(),
            **({"written_as": self.note} if self.note else {}),
            "integrator": {
                "name": self.integrator_name,
                "class": type(self.integrator).__name__,
                "options": _options(self.integrator),
            },
            "order": self.integrator.order,
            "t0": self.t0,
            "t1": self.t1,
            **plan.how,
            **({} if saving.at is None else {"between_steps": True}),
            **({"promises_at_steps": True} if self.integrator.promises_at_steps else {}),
            "promises": self.integrator.promised(self.system, self.state0),
            "method": recorded(self.integrator),
            "newton_tolerance": self.integrator.newton_tolerance(plan.how.get("h")),
            "version": __version__,
            **self._scene(),
        }

    def known(self) -> dict[str, Any]:
        """Plain values from which the problem can be made anew, if it is a named one or that of a file."""
        return {
            "problem": self.problem.name if self.problem else None,
            **({"origin": self.problem.origin} if self.problem and self.problem.origin else {}),
            "parameters": _plain(dict(self.problem.parameters)) if self.problem else {},
        }

    def _choice(self) -> dict[str, Any]:
        """Why it has these coordinates, and this method if it is the recommended one."""
        choice = self.problem.choice if self.problem else ASKED
        recommended = self.problem is not None and self.integrator_name == self.problem.integrator
        reasons = {"coordinates": choice.coordinates, "method": choice.method if recommended else ""}
        found = {key: reason for key, reason in reasons.items() if reason}
        return {"choice": found} if found else {}

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


def _called(method: AbstractIntegrator) -> str:
    """The name of a method in the registry, or that of its class."""
    return integrators.name_of(method) or type(method).__name__


def _options(method: AbstractIntegrator) -> dict[str, Any]:
    """Numbers and words in which a method differs from the default of its class."""
    return {
        field.name: getattr(method, field.name)
        for field in dataclasses.fields(method)
        if field.default is not dataclasses.MISSING and getattr(method, field.name) != field.default
    }


def _written(system: AbstractSystem, method: AbstractIntegrator, name: str, t: float, state: State) -> Written:
    """`system`, or the conversion of it that the method takes."""
    try:
        return written(system, method, t, state, checked=False)
    except Unsuited as error:
        able = [n for n in integrators.names() if suits(integrators.get(n), system)]
        raise ValueError(
            f"Integrator `{name}` can't take this {type(system).__name__}: {error}. Integrators for it: "
            f"{', '.join(able) or 'none'}."
        ) from None


def _time(name: str, value: Any) -> float:
    if isinstance(value, Tracer):
        raise ValueError(
            f"`{name}` is traced by JAX, but the number of steps is part of the program. Make it a plain number; for "
            "derivatives with respect to time, scale the vector field."
        )
    return checks.number(name, value, "of the run")


def _positive(name: str, value: Any, remedy: str) -> float:
    number = _time(name, value)
    if number <= 0:
        raise ValueError(f"`{name}` must be positive, got {number:g}. {remedy}")
    return number


def saving(every: int | None, at: Any, t0: float, t1: float) -> host.Saving:
    """Which instants are kept. Raises ValueError for times that don't fit the span."""
    if at is not None:
        if isinstance(at, Tracer):
            raise ValueError("`save_at` is traced by JAX; give plain numbers or a NumPy array.")
        times = np.atleast_1d(checks.numbers("save_at", at, "times"))
        low, high = min(t0, t1), max(t0, t1)
        if times.ndim != 1 or len(times) == 0 or not np.isfinite(times).all():
            raise ValueError(f"`save_at` must be a non-empty list of finite times, got {shown(at)}.")
        if (np.diff(times) * np.sign(t1 - t0) <= 0).any():
            raise ValueError("`save_at` must run strictly from t0 towards t1; sort it and drop repeated times.")
        if times.min() < low - 1e-12 * (high - low) or times.max() > high + 1e-12 * (high - low):
            raise ValueError(
                f"`save_at` holds {times.min():g} … {times.max():g}, outside the span [{low:g}, {high:g}]."
            )
        return host.Saving(None, np.clip(times, low, high))
    return host.Saving(None if every is None else checks.count("save_every", every, "steps, or None", 2**62), None)


class Steps(NamedTuple):
    """How steps are wanted: see `polhode.simulate`."""

    h: Any = None
    rtol: Any = None
    atol: Any = None
    control: StepControl = StepControl()
    max_steps: int = 10_000_000
    breakpoints: Any = ()


class Plan(NamedTuple):
    """The legs of a run, what of them is told in its results, and the start if it is more than a state.

    `how["asked"]` is what was asked for, with which a run goes on beyond its end.
    """

    legs: list[Leg]
    how: dict[str, Any]
    start: host.Start


def plan(task: Task, wanted: Steps, memory: Memory | None = None) -> Plan:
    """The legs of a run. Raises ValueError for sizes, tolerances and breakpoints that make no sense."""
    t0, t1, span = task.t0, task.t1, abs(task.t1 - task.t0)
    h, rtol, atol = wanted.h, wanted.rtol, wanted.atol
    given = times_of(wanted.breakpoints) + ([] if memory is None else times_of(memory.steps.breakpoints))
    breaks = breakpoints(task.system, given, t0, t1)
    told: dict[str, Any] = {"breakpoints": list(breaks.inner)} if breaks.inner else {}
    asked: dict[str, Any] = {"breakpoints": given} if given else {}
    if h is not None and (rtol is not None or atol is not None):
        raise ValueError(f"Got both a constant step h = {h} and tolerances; give `h`, or `rtol` and `atol`.")
    if h is None and rtol is None and atol is None:
        if memory is not None and memory.steps.h is None:
            rtol, atol = memory.steps.rtol, memory.steps.atol
        elif memory is not None:
            h = min(abs(memory.steps.h), span)
        elif task.problem is None:
            raise ValueError("Give a constant step `h`, or tolerances `rtol` and `atol`.")
        else:
            h = min(_positive("h of the problem", task.problem.h, "Build the problem with another."), span)
    if h is not None:
        h = _positive("h", h, "Set the direction of time by t1.")
        if h > span * (1 + 1e-12):
            raise ValueError(f"`h` = {h:g} is larger than the span {span:g} from t0 to t1; take a smaller step.")
        if span / h > 2**53:
            raise ValueError(f"`h` = {h:g} needs {span / h:.3g} steps for the span {span:g}; take a larger step.")
        _check_resolved(t0, t1, h, _STEPS_RESOLVED, f"steps of {h:g}")
        # A short span doesn't make the steps of later ones shorter.
        asked["h"] = abs(memory.steps.h) if wanted.h is None and memory is not None and memory.steps.h else h
        found = None if memory is None or breaks != legs.Breaks() else memory.further(task, t1, h)
        parts = legs.constant(t0, t1, h, breaks) if found is None else found
        return _planned(parts, {**legs.described(parts), **told, "asked": asked}, task, memory)
    if task.integrator.error_order is None:
        estimating = {n: m for n in integrators.names() if (m := integrators.get(n)).error_order is not None}
        able = [n for n, method in estimating.items() if suits(method, task.source, plainly=True)]
        raise ValueError(
            f"Integrator `{task.integrator_name}` has no error estimate, so it can't take tolerances. Give `h`"
            f"{', or use one of ' + ', '.join(able) if able else ''}."
        )
    rtol = 0.0 if rtol is None else _time("rtol", rtol)
    atol = rtol / 100 if atol is None else _time("atol", atol)
    if rtol < 0 or atol < 0 or rtol + atol == 0:
        raise ValueError(f"`rtol` and `atol` must not be negative and not both zero, got {rtol:g} and {atol:g}.")
    _check_resolved(t0, t1, span, _SPAN_RESOLVED, f"a span of {span:g}")
    parts = legs.controlled(t0, t1, (rtol, atol), wanted.control, wanted.max_steps, breaks)
    return _planned(
        parts, {"rtol": rtol, "atol": atol, **told, "asked": {**asked, "rtol": rtol, "atol": atol}}, task, memory
    )


def _planned(parts: list[Leg], how: dict[str, Any], task: Task, memory: Memory | None) -> Plan:
    """With the state as the start, or all that an earlier run with the same method remembers."""
    progress = None if memory is None else memory.progress(task)
    if memory is None or progress is None:
        return Plan(parts, how, host.Start(task.state0))
    if not memory.steps_alike(task, parts[0]):
        # What a method remembers of steps of another length or direction says nothing of these.
        parts = [parts[0]._replace(fresh=True), *parts[1:]]
    return Plan(parts, how, host.Start(task.state0, host.Checkpoint(progress, 0, 0)))


_STEPS_RESOLVED = 1000
"""Units of resolution that a constant step must have at least: times of steps are then right to a thousandth of it."""

_SPAN_RESOLVED = 10**6
"""The same for the span of a run with tolerances."""


def _check_resolved(t0: float, t1: float, size: float, units: int, what: str) -> None:
    unit = math.ulp(max(abs(t0), abs(t1)))
    if size < units * unit:
        raise ValueError(
            f"At t = {max((t0, t1), key=abs):g} numbers are {unit:.2g} apart, too far to tell the times of {what} from "
            "each other. Count time from the start of the run: t0 = 0, with the shift in the functions of time."
        )


def times_of(given: Any) -> list[float]:
    """Breakpoints of the user. Raises ValueError for anything but finite times."""
    if isinstance(given, Tracer):
        raise ValueError("`breakpoints` are traced by JAX; give plain numbers.")
    known = [] if given is None else checks.listed("breakpoints", given, "times")
    times = checks.numbers("breakpoints", known or np.zeros(0), "times")
    if times.ndim != 1 or not np.isfinite(times).all():
        raise ValueError(f"`breakpoints` must be finite times, got {shown(given)}.")
    return times.tolist()


def breakpoints(system: AbstractSystem, given: Sequence[float], t0: float, t1: float) -> legs.Breaks:
    """Those of the user and of the loads that lie within the span, in the direction of time, or at its ends."""
    low, high, near = min(t0, t1), max(t0, t1), 1e-12 * abs(t1 - t0)
    own = np.unique(np.asarray(system.breakpoints(), dtype=float))
    # Loads know better than users where exactly they jump.
    others = [t for t in given if not np.any(np.abs(own - t) <= near)]
    every = np.unique(np.concatenate((own, others)))
    at_low, at_high = (bool(np.any(np.abs(every - end) <= near)) for end in (low, high))
    inner = every[(every > low + near) & (every < high - near)]
    # Two that can hardly be told apart are one.
    inner = inner[np.diff(inner, prepend=-np.inf) > 8 * math.ulp(max(abs(t0), abs(t1)))]
    forward = t1 > t0
    ordered = tuple(float(x) for x in (inner if forward else inner[::-1]))
    return legs.Breaks(ordered, *((at_low, at_high) if forward else (at_high, at_low)))


def limit(given: Any, default: int) -> int:
    """The largest number of attempted steps. Raises ValueError for anything but a whole number."""
    return default if given is None else checks.count("max_steps", given, "attempted steps of a run")


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
