"""The function `polhode.simulate`: one entry point of all runs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Literal, NamedTuple

from polhode import checks
from polhode.compiler.placement import with_default_device
from polhode.events.event import Event, flatten_events
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import check_environment, in_reverse_mode, inside_transformation
from polhode.problem import Problem
from polhode.result_codes import Result
from polhode.simulation import traced_run
from polhode.simulation.checkpoint.previous_run import PreviousRun
from polhode.simulation.checkpoint.resume import resume_task
from polhode.simulation.checkpoint.resume_checks import ResumeRequest
from polhode.simulation.diagnosis import warn_of_stiffness
from polhode.simulation.error_estimate import estimate_run_error
from polhode.simulation.loops.signals import interrupts
from polhode.simulation.run import RunOptions, carry_out
from polhode.simulation.run_plan import PlannedRun, plan_run
from polhode.simulation.save_schedule import SaveSchedule, save_schedule
from polhode.simulation.step_request import StepRequest, breakpoint_times, step_limit
from polhode.simulation.stepping.step_control import StepControl
from polhode.simulation.store_sink import check_when_full, open_sink
from polhode.simulation.task import Task
from polhode.solution.solution import Solution
from polhode.storage.store_choice import is_run
from polhode.systems.base import AbstractSystem, State


@with_default_device
def simulate(
    problem: Problem | AbstractSystem,
    integrator: AbstractIntegrator | str | None = None,
    *,
    h: float | None = None,
    rtol: float | None = None,
    atol: float | None = None,
    t0: float | None = None,
    t1: float | None = None,
    state0: State = None,
    initial: Solution | None = None,
    save_every: int | None = 1,
    save_at: Any = None,
    breakpoints: Sequence[float] = (),
    events: Sequence[Event] | Event = (),
    store: str | Path | None = None,
    overwrite: bool = False,
    resume: bool = False,
    when_full: Literal["fail", "wait"] | str | Path = "fail",
    estimate_error: bool = False,
    progress: bool = False,
    throw: bool = True,
    control: StepControl | None = None,
    max_steps: int | None = None,
    max_events: int | None = None,
) -> Solution:
    """Run a problem or a system with an integrator.

    Works as a program on the host, with progress, stores and Ctrl-C, and inside `jax.jit`, `jax.grad`, `jax.jvp` and
    `jax.vmap`, where the whole run becomes one traced expression; in reverse derivatives outside `jit` and `vmap` it is
    machine code, there and back. Derivatives of error-controlled runs are those of the
    accepted step sequence held fixed.

    **Arguments:**

    - `problem`: a `Problem`, or a bare system with `state0` and `t1`.
    - `integrator`: object or name; the problem's recommended one by default. With tolerances, in place of a method
      without error estimate comes `rkmk54`, or `herk54` with constraints. With tolerances or events the generalized-α
      method takes `constraint="stabilized-index-2"` where there are constraints and no other is named, because index 3
      disturbs the multipliers at every change of step. At tight tolerances `herk54` needs far fewer steps than
      generalized-α, which is of order 2.
    - `h`: constant step. The span is divided into a whole number of steps, so the step used is at most `h`.
    - `rtol`, `atol`: tolerances of error control instead, for integrators with an embedded estimate; atol is
      rtol / 100 by default.
    - `t0`, `t1`, `state0`: other ends and start than the problem's. t1 < t0 runs backward in time (constant steps).
      A start must lie on its space and keep constraints and their rates at t0 to 1e-6 of the larger of 1 and the
      largest coordinate or velocity; it is used as given.
    - `initial`: a run of the same problem, in whose last frame this one begins, instead of `t0` and `state0`. With the
      same method it continues with the full memory of the method, to the bytes of one long run;
      `solution[k]` begins in frame k, with the state alone. Steps are those of the earlier run by default.
    - `save_every`: save every that many accepted steps, and the ends; None saves the ends only.
    - `save_at`: save at these increasing times instead, interpolated on the manifold.
    - `breakpoints`: instants at which loads jump or have kinks, besides those that loads name themselves
      (`AbstractSystem.breakpoints`). Steps end there exactly, the last one seeing nothing of what comes after, and
      methods restart after them. Those outside the span don't matter.
    - `events`: `polhode.Event`s with their effects; `solution.events` has those that occurred. Saved frames stay at
      the requested times; one at the instant of an event shows the state before. With constant steps the one after an
      event ends where the one that it cut short would have.
    - `store`: path to which frames are appended while running, of an HDF5 file if it ends in `.h5` or `.hdf5`, else of
      a zarr store; with `overwrite` an existing run there is replaced by this one as soon as its first frame is
      written. The frames of the solution are read from there.
    - `resume`: continue the run in `store`, from the last state that was written, to the bytes of an uninterrupted
      run; if there is none, begin it. A later `t1` extends it. See also `polhode.resume`.
    - `when_full`: what to do when the disk of the store is full: "fail" ends the run, "wait" waits for space, a path
      continues in another place, with a copy of what was written.
    - `estimate_error`: if the run is successful, make a second one with half the step or correspondingly tighter
      tolerances, and report the estimated error of every output in `stats["error_estimate"]`: its largest value over
      the run, and the decimal digits that it leaves of the largest value of the output. Right for motions that are
      smooth between breakpoints; a pulse that both runs step over is not seen. Of a bare system without outputs it is
      the state that is compared.
    - `progress`: show on standard error what is compiled, then a progress bar, and how long each part took.
    - `throw`: raise `SimulationError` if the run fails; otherwise only `solution.stats["result"]` tells, with
      `stats["diagnosis"]` or, after an unforeseen error, `stats["error"]`.
    - `control`: details of step size control.
    - `max_steps`: limit of attempted steps of a controlled run, 10 million by default; inside JAX transformations
      4096, since that much may be traced.
    - `max_events`: that many end the run, as events do that accumulate at the resolution of time; 10 000 by default,
      inside JAX transformations 64, for which memory is allocated.

    **Returns** a `Solution`.

    Ctrl-C, SIGTERM and SIGHUP end the run after the present block of steps, with result `interrupted`. When its store
    is closed, Ctrl-C raises a KeyboardInterrupt whose `solution` holds everything computed so far, and SIGTERM and
    SIGHUP end the process. Where the script has handlers of its own for them, they are called, and the partial run is
    returned, with an `InterruptionWarning` unless `throw` is False.

    Warns with `StepSizeWarning` before a run if waves in rods, bonds or contacts are too fast for an explicit method
    with this step.

    **Raises** ValueError for bad input, before anything is compiled; `StoreError` for a store that can't be created or
    resumed; `SimulationError` (see `throw`).
    """
    began = time.perf_counter()
    check_environment()
    output = Output(store, overwrite, resume, when_full, estimate_error, progress, throw)
    event_list = flatten_events(events)
    output.check(initial, event_list)
    if control is not None and not isinstance(control, StepControl):
        raise ValueError(f"`control` must be a polhode.StepControl, got {type(control).__name__}.")
    previous = None if initial is None else PreviousRun.of_solution(initial, t0, state0)
    inside = inside_transformation()
    request = StepRequest(h, rtol, atol, control or StepControl(), breakpoints=breakpoints)
    task = Task.prepare(
        problem,
        integrator,
        t0,
        t1,
        state0,
        tolerances=request.has_tolerances,
        events=event_list,
        max_events=64 if max_events is None and inside else max_events or 10_000,
        previous=previous,
    )
    schedule = save_schedule(save_every, save_at, task.t0, task.t1)
    request = request._replace(max_steps=step_limit(max_steps, 4096 if inside else 10_000_000))
    run = plan_run(task, request, schedule, previous)
    if inside:
        if in_reverse_mode() and not run.identity.events.run_system.source.has_reverse_derivative:
            raise ValueError(
                "Runs with contacts between rods have no derivatives in reverse mode, as of `jax.grad`: take forward "
                "mode, `jax.jacfwd` or `jax.jvp`, or leave these contacts out."
            )
        return traced_run.trace(run, output.store, output.estimate_error)
    if resume and store is not None and is_run(store):
        steps = request._replace(breakpoints=breakpoint_times(breakpoints))
        resumption = ResumeRequest(steps, t1, max_steps, schedule, starts=True)
        return resume_task(store, task, resumption, when_full, RunOptions(progress, throw), began)
    return _run_on_host(run, output, began)


class Output(NamedTuple):
    """Options of a run that concern its store, its display and its errors: see `simulate`."""

    store: str | Path | None
    overwrite: bool
    resume: bool
    when_full: str | Path
    estimate_error: bool
    progress: bool
    throw: bool

    def check(self, initial: Any, events: Sequence[Event]) -> None:
        """Raises ValueError for invalid arguments, and for those that contradict each other."""
        check_when_full(self.when_full)
        for name in ("overwrite", "resume", "estimate_error", "progress", "throw"):
            checks.flag(name, getattr(self, name))
        if self.resume and self.store is None:
            raise ValueError("`resume=True` goes on with the run in `store`; give its path.")
        if self.resume and initial is not None:
            raise ValueError("`resume` goes on with the run in `store`, `initial` with another one; give either.")
        if self.resume and self.overwrite:
            raise ValueError("`resume` goes on with the run in `store`, `overwrite` replaces it; give either.")
        if self.resume and self.estimate_error:
            raise ValueError("`estimate_error` needs a run from its start; it can't be had of one that goes on.")
        if self.estimate_error and events:
            raise ValueError(
                "`estimate_error` is for motions without events, which would not fall into the same steps."
            )


def _run_on_host(run: PlannedRun, output: Output, began: float) -> Solution:
    """The run on the host; `began`: when the call began."""
    warn_of_stiffness(run)
    options = RunOptions(output.progress, output.throw, time.perf_counter() - began)
    # Signals are handed on when the store is closed.
    with interrupts() as signals:
        with open_sink(output.store, run, output.overwrite, output.when_full) as sink:
            solution = carry_out(run, options, sink, signals)
        if output.estimate_error and solution.stats["result"] == Result.successful:
            solution.stats["error_estimate"] = estimate_run_error(solution, run, output.store, signals)
    return solution


def simulate_stoppable(task: Task, request: StepRequest, schedule: SaveSchedule, stop: Callable[[], bool]) -> Solution:
    """A run in memory that ends after the block of steps in which `stop` becomes true, also outside the main thread."""
    run = plan_run(task, request, schedule)
    warn_of_stiffness(run)
    with interrupts(stop) as signals:
        return carry_out(run, RunOptions(), None, signals)
