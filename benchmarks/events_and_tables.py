"""What watching for events, an event and tables cost beside a run without them, in code compiled with most effort.

python benchmarks/events_and_tables.py [events] [tables]
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from optimised_code import with_most_effort

import polhode as ph

STEPS, H = 100_000, 1e-4


class Control(eqx.Module):
    """Torque of a joint: a function of time, and a damper."""

    torque: Any

    @property
    def breakpoints(self) -> Any:
        """Those of the function."""
        return getattr(self.torque, "breakpoints", ())

    @property
    def kinks(self) -> Any:
        """Those of the function."""
        return getattr(self.torque, "kinks", ())

    def __call__(self, t: Any, angles: Any, rates: Any) -> Any:
        return jnp.reshape(self.torque(t), (1,)) - 0.1 * rates


def arm(torques: Sequence[Any], t1: float, h: float) -> ph.Problem:
    """An arm with a link for each torque; one of two links swings in a plane."""
    model, axes = ph.Model(gravity=(0, 0, -9.81)), ((0, 1, 0), (0, 0, 1), (1, 0, 0))
    below = model.ground
    for k, torque in enumerate(torques):
        link = model.add_body(mass=1 + 0.1 * k, inertia=(0.02, 0.03, 0.035), position=(0.3 * k + 0.15, 0.02 * k, 0.01))
        axis = axes[k % 3] if len(torques) > 2 else axes[0]
        joint = model.add(ph.joints.Revolute(below, link, point=(0.3 * k, 0, 0), axis=axis))
        if torque is not None:
            model.add(ph.forces.JointControl([joint], Control(torque)))
        below = link
    return model.problem("minimal", t1=t1, h=h)


def least(runs: dict[Any, Callable[[], Any]], repetitions: int) -> dict[Any, tuple[float, Any]]:
    """Least processor time of several runs that take turns, and what they return."""
    best: dict[Any, tuple[float, Any]] = {}
    for run in runs.values():
        with_most_effort(run)
    for _ in range(repetitions):
        for name, run in runs.items():
            began = time.thread_time()
            result = run()
            spent = time.thread_time() - began
            if name not in best or spent < best[name][0]:
                best[name] = spent, result
    return best


def events() -> None:
    """The double pendulum: nothing happens, and an instant with events every hundred steps."""
    problem = arm((None, None), STEPS * H, H)

    def run(function: Any = None, action: Any = None) -> Callable[[], Any]:
        watched = [] if function is None else [ph.Event(function, action)]
        return lambda: ph.simulate(problem, "rkmk4", save_every=None, events=watched, max_events=STEPS)

    def clock(level: float, of_velocities: bool) -> Any:
        wave = lambda t: level + jnp.sin(2 * jnp.pi * t / (200.5 * H))  # noqa: E731
        return lambda t, state: wave(t) + (0 * state[1][0] if of_velocities else 0.0)

    keep = lambda t, state: (state[0], 1.0 * state[1])  # noqa: E731
    runs: dict[Any, Callable[[], Any]] = {
        "alone": run(),
        "positions": run(lambda t, state: state[0][0][0] + 50.0),
        "velocities": run(lambda t, state: state[1][0] + 500.0),
    }
    for of_velocities in (False, True):
        for action in (None, keep):
            for level in (0.0, 1.5):
                runs[(of_velocities, action, level)] = run(clock(level, of_velocities), action)
    best = least(runs, 12)
    alone = best["alone"][0]
    for name in ("alone", "positions", "velocities"):
        print(f"{name}: {best[name][0] / STEPS * 1e6:.3f} µs a step, {best[name][0] / alone:.2f} of the run alone")
    for (of_velocities, action, _), (spent, solution) in ((k, x) for k, x in best.items() if k[2:] == (0.0,)):
        count = len(solution.events.t)
        cost = (spent - best[(of_velocities, action, 1.5)][0]) / count * 1e6
        print(f"event of {'velocities' if of_velocities else 'positions'}, action: {action is not None}: {cost:.1f} µs")


def tables() -> None:
    """2,000 steps of arms whose torques are formulas, tables and jumps, over those with formulas."""

    def waves(times: Any, k: int) -> Any:
        return 0.3 * np.sin((3 + k) * times)

    def linear(n: int) -> Callable[[int], Any]:
        times = np.linspace(0, 1, n)
        return lambda k: ph.PiecewiseLinear(times, waves(times, k))

    def jumps(n: int) -> Callable[[int], Any]:
        times = np.repeat(np.linspace(0, 1, n + 1), 2)[1:-1]
        return lambda k: ph.PiecewiseLinear(times, np.repeat(waves(np.linspace(0, 1, n), k), 2))

    def interpolated(n: int) -> Callable[[int], Any]:
        times = np.linspace(0, 1, n)

        def table(k: int) -> Any:
            values = waves(times, k)
            return lambda t: jnp.interp(t, times, values)

        return table

    def surface(k: int) -> Any:
        table = ph.Table2D(
            np.linspace(0, 1, 2001), np.linspace(0, 1, 21), np.tile(waves(np.linspace(0, 1, 2001), k)[:, None], 21)
        )
        return lambda t: table(t, 0.3 + 0.1 * t)

    kinds: dict[str, Callable[[int], Any]] = {
        "formula": lambda k: lambda t: 0.3 * jnp.sin((3 + k) * t),
        "PiecewiseLinear, 2,001 points": linear(2001),
        "PiecewiseLinear, 10,001 points": linear(10_001),
        "a jump at each of 2,000 steps": jumps(2000),
        "jnp.interp, 1,001 points": interpolated(1001),
        "CubicSpline, 2,001 points": lambda k: ph.CubicSpline(
            np.linspace(0, 1, 2001), waves(np.linspace(0, 1, 2001), k)
        ),
        "Table2D, 2,001 by 21 points": surface,
    }
    for links in (2, 7):
        problems = {name: arm([kind(k) for k in range(links)], 1.0, 1 / 2000) for name, kind in kinds.items()}
        runs = {name: lambda p=p: ph.simulate(p, "rkmk4", save_every=None) for name, p in problems.items()}
        best = least(runs, 25)
        for name, (spent, _) in best.items():
            print(f"{links} links, {name}: {spent * 1e3:.1f} ms, {spent / best['formula'][0]:.2f} of a formula")


if __name__ == "__main__":
    for each in sys.argv[1:] or ["events", "tables"]:
        {"events": events, "tables": tables}[each]()
