"""Work in intervals between frames in which loads act briefly, along motions with steps that resolve them."""

from __future__ import annotations

from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode.multibody.measurements.balances import Balance
from polhode.results.audit.broken_loads import BrokenIntervals
from polhode.results.derived_quantities import StateConversion
from polhode.results.observer import BatchedObserver
from polhode.spaces.base import Point, Vector
from polhode.systems.base import State

_STEPS = 1024
"""Steps of the midpoint rule in an interval, and half as many for the error: 4 µs of 4 ms, where dampers of stops come
into force within 0.1 ms."""

_ROWS = 16
"""Intervals that are evaluated together where there is no machine code."""

_MOST = 256
"""Intervals at most, those with the largest errors first."""


class _Work(eqx.Module):
    """Work of loads without a potential within an interval, from the state at its beginning, and an error bound.

    What the run does within the interval is not taken for granted: its end differs from that of this motion by the
    error of the run, which so remains in the balance.
    """

    rule: Balance
    conversion: StateConversion

    def __call__(self, t: Array, start: tuple[State, Array]) -> dict[str, Array]:
        state, width = start
        q, v = self.conversion(state)
        fine, coarse = (self._along(t, q, v, width / steps, steps) for steps in (_STEPS, _STEPS // 2))
        return {"work": fine, "error": jnp.abs(fine - coarse)}

    def _along(self, t: Array, q: Point, v: Vector, h: Array, steps: int) -> Float[Array, ""]:
        system = self.rule.system

        def step(so_far: tuple[Point, Vector, Array], k: Array) -> tuple[tuple[Point, Vector, Array], None]:
            q, v, work = so_far
            acceleration, _ = system.accelerations(t + k * h, q, v)
            middle, at, half = system.flow(q, v, 0.5 * h), t + (k + 0.5) * h, v + 0.5 * h * acceleration
            acceleration, _ = system.accelerations(at, middle, half)
            power = self.rule(at, middle, half)["power"]
            end = system.configuration.move(q, h * system.kinematics(middle, half))
            return (end, v + h * acceleration, work + h * power), None

        return jax.lax.scan(step, (q, v, jnp.zeros(())), jnp.arange(steps, dtype=float))[0][2]


def resolved_intervals(
    rule: Balance,
    conversion: StateConversion,
    t: Float[np.ndarray, " n"],
    states: Any,
    rows: Int[np.ndarray, " m"],
    gains: Float[np.ndarray, " m"],
) -> BrokenIntervals:
    """The work in those of the intervals `rows`, after frames with these states, where steps resolve the motion.

    Of systems without constraints and counted turns, whose motion takes an explicit step. `gains`: of the balanced
    quantity in these intervals; where the error of the work is as large, as in motions that are too stiff for such
    steps, the samples of the frames are no worse.
    """
    observer = BatchedObserver(_Work(rule, conversion), _ROWS, once=True)
    values = observer.observe(t[rows], (states, np.diff(t)[rows]))
    work, error = (np.asarray(values[name], dtype=float) for name in ("work", "error"))
    solved = np.isfinite(work) & (error < np.abs(gains))
    rows, work, error = rows[solved], work[solved], error[solved]
    none, flat = np.zeros(len(rows)), np.zeros((len(rows), 1))
    return BrokenIntervals(rows, work[:, None], flat, flat, none, error)


def doubtful_rows(gains: Float[np.ndarray, " n"], least: float) -> Int[np.ndarray, " m"]:
    """Intervals in which a balanced quantity gains more than `least`; those that gain most if there are too many."""
    largest = np.argsort(-np.abs(gains), kind="stable")[:_MOST]
    return np.sort(largest[np.abs(gains)[largest] > least])
