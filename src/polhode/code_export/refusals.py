"""Problems and methods that can't leave Python, refused with the reason and a remedy before anything is computed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax
import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.name_errors import unknown_name
from polhode.simulation.events.detection import EventDetectingStepper
from polhode.simulation.events.handler import EventHandler
from polhode.simulation.stepping.stepper import AbstractStepper
from polhode.simulation.task import Task


def check_task(task: Task) -> None:
    """Raises ValueError for systems and methods whose steps depend on what the host does between them."""
    system = task.run_system.system
    times = np.unique(np.concatenate([np.ravel(system.breakpoints()), np.ravel(system.kinks())])).astype(float)
    times = times[times >= task.t0]
    if times.size:
        raise ValueError(
            f"Loads of the model jump or have kinks at t = {', '.join(f'{t:g}' for t in times[:5])}"
            f"{' …' if times.size > 5 else ''}, where `simulate` ends a step, and exported steps have one length. Make "
            "what changes there a `polhode.Parameter`, name it in `inputs`, and call the function `…_jump` after "
            "setting it."
        )
    plan = task.events
    if plan.first_located < len(plan.events):
        raise ValueError(
            f"`{task.integrator_name}` ends steps where contacts close, open, stick or slide, and changes its "
            "equations there, which only Python can do. Take `moreau`, whose steps go across impacts."
        )
    if plan.holds_contacts:
        resting = [event.name for event in plan.events if getattr(event.action, "rests", False)]
        raise ValueError(
            f"The contact of {_quoted_names(resting)} may come to rest, where the equations change, which only Python "
            "can do. Give `rests_below` to the impact, which ends the run there, or let shapes touch and take `moreau`."
        )


def check_events(task: Task, stepper: AbstractStepper, handler: EventHandler | None) -> None:
    """Raises ValueError for events that compiled steps leave to the host."""
    if handler is None or not isinstance(stepper, EventDetectingStepper):
        return
    if stepper.responses is None:
        raise ValueError(
            "The impacts of a model of this size are computed by Python between steps. Let shapes touch, "
            "`model.add_contact`, and take `moreau`, whose steps go across impacts."
        )
    names = [event.name for event in handler.plan.events if event.change is not None]
    if names:
        raise ValueError(
            f"Event {_quoted_names(names)} changes the system, which only Python can do. Leave it out, or make what it "
            "changes a `polhode.Parameter`, name it in `inputs`, and set it from the program that calls the steps."
        )
    for k, event in enumerate(handler.plan.events):
        now = jnp.asarray(task.t0), task.state0
        reason = stepper.responses.trace_error(k, *now, handler.system, handler.source)
        if reason:
            raise ValueError(
                f"The action of event `{event.name}` can't be traced by JAX: {reason} Write it with jax.numpy, as a "
                "function of t, state and system that returns a state of the same form; `simulate` calls it in Python."
            )


def check_exchange(task: Task) -> None:
    """Raises ValueError for systems whose motion the solver of another program can't follow."""
    source, system = task.run_system.source, task.run_system.system
    remedy = "Leave out `exchange`: units for co-simulation bring their method along."
    to_source, t = task.run_system.conversion.to_source, jnp.asarray(task.t0)
    if "position" in jax.eval_shape(lambda state: source.residuals(t, to_source(state)), task.state0):
        raise ValueError(
            "Solvers of other programs don't keep the constraints of this model, so that it would fall apart slowly. "
            f"{remedy} Or take joint coordinates, `formulation='minimal'`, if nothing is a closed loop."
        )
    if jax.eval_shape(lambda state: system.velocity(t, state), task.state0) is None:
        raise ValueError(f"States of this {system.kind_name} don't determine their rates. {remedy}")
    if system.counts:
        raise ValueError(
            "This model counts turns of joint angles along the motion, which solvers of other programs don't. "
            f"{remedy} Or take joint coordinates, `formulation='minimal'`."
        )
    if any(np.asarray(x).dtype != np.float64 for x in jax.tree.leaves(task.state0)):
        raise ValueError(f"States of this {system.kind_name} have parts that are no real numbers. {remedy}")


def check_outputs(names: Sequence[str], candidates: Iterable[str]) -> None:
    """Raises `UnknownName` for outputs that there are not."""
    every = list(candidates)
    for name in checks.sequence("outputs", names, "names of outputs"):
        if name not in every:
            raise unknown_name("output", name, every)


def no_derivatives(problem: str) -> ValueError:
    """The error for derivatives of steps in which events may happen."""
    return ValueError(
        f"Steps of problem `{problem}` have events, such as impacts and stops, across which exported derivatives don't "
        "go. Leave out `derivatives`, or the events."
    )


def no_code(reason: Exception, problem: str, method: str) -> ValueError:
    """The error for functions that have no machine code."""
    return ValueError(
        f"The step of `{method}` for problem `{problem}` can't be exported: there is no C for {reason}. Functions of "
        "users must be made of `jax.numpy`, without callbacks to Python; models must be small enough for machine code."
    )


def _quoted_names(names: Sequence[str]) -> str:
    return ", ".join(f"`{name}`" for name in names)
