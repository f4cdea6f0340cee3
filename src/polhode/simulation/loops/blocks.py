"""Blocks of steps of a segment: in machine code if possible, otherwise by XLA."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp

from polhode.compiler.compile_report import CompileReport
from polhode.integrators.base import AbstractIntegrator
from polhode.simulation.loops import native
from polhode.simulation.loops.xla import Buffer, run_block
from polhode.simulation.stepping.stepper import AbstractStepper, Progress
from polhode.systems.base import AbstractSystem

BY_XLA = CompileReport(None, "xla", kept=False)
"""The report of steps that XLA compiles."""


class Blocks:
    """Blocks of steps of one segment.

    - `step_loop`, `arguments`: of the machine code; None without.
    """

    def __init__(
        self,
        stepper: AbstractStepper,
        system: AbstractSystem,
        integrator: AbstractIntegrator,
        p: Progress,
        report: Callable[[CompileReport], None],
    ) -> None:
        self._steps = stepper, system, integrator
        self.step_loop, self.arguments = native.steps(stepper, system, integrator, p, report)

    def run(
        self, p: Progress, n_limit: int, every: Any, last: bool, targets: Any, saved_count: int, capacity: int
    ) -> tuple[Progress, Buffer]:
        """The progress at step `n_limit` at the latest, and the frames on the way; the arguments are `run_block`'s."""
        if self.step_loop is not None:
            p, count, (t, state, multipliers) = self.step_loop(
                self.arguments, p, n_limit, int(every), last, targets, saved_count, capacity
            )
            return p, Buffer(count, t, state, multipliers)
        limits = jnp.asarray(n_limit), every, targets, jnp.asarray(saved_count), jnp.asarray(last)
        return run_block(*self._steps, p, *limits, capacity)
