"""Robots in batches: 1,024 of each in lanes, beside `mujoco.batch` with the same model, on one thread of one core.

    python benchmarks/robot_batches.py [panda] [quadruped] [--members N] [--steps N]

Times are of the processor, µs a step and member, the least of several runs that follow each other in one process;
those of polhode are the difference between two numbers of steps, so that starts and outputs don't count. MuJoCo gets
the model as `Model.to_mjcf` writes it, without contacts, with its Runge–Kutta method of order 4, as `rkmk4`, and with
`implicitfast`. Compiling is the time of the first batch, with all that it makes, without cached programs.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import jax
import jax.numpy as jnp
import numpy as np
from optimised_code import with_most_effort
from robots import ROBOTS

import polhode as ph

REPEATS = 3


def processor_time(call: Any) -> float:
    began = time.process_time()
    call()
    return time.process_time() - began


def starts(problem: ph.Problem, members: int) -> Any:
    """States with other velocities than that of the problem, one after the other."""
    q, v = problem.state0
    rates = jnp.asarray(0.1 * np.random.default_rng(0).normal(size=(members, np.size(v))))
    return jax.tree.map(lambda x: jnp.broadcast_to(x, (members, *x.shape)), q), rates


def batch(problem: ph.Problem, members: int, steps: int) -> tuple[float, float]:
    """Seconds of the first batch, and µs a step and member."""
    states = starts(problem, members)

    def march(count: int) -> Any:
        how: dict[str, Any] = {"h": problem.h, "t1": count * problem.h, "save_every": None, "workers": 1}
        return ph.ensemble(problem, "rkmk4", states=states, **how)

    first = processor_time(lambda: march(steps // 4))
    with_most_effort(lambda: march(steps // 4))
    short, long = (min(processor_time(lambda n=n: march(n)) for _ in range(REPEATS)) for n in (steps // 4, steps))
    return first, 1e6 * (long - short) / members / (steps - steps // 4)


def mujoco_batch(text: str, h: float, integrator: str, members: int, steps: int) -> float:
    """µs a step and member of MuJoCo."""
    import mujoco
    import mujoco.batch

    model = mujoco.MjModel.from_xml_string(text)
    model.opt.timestep, model.opt.integrator = h, getattr(mujoco.mjtIntegrator, f"mjINT_{integrator}")
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    all_of_them = mujoco.batch.Batch(model, members, 1)
    all_of_them.bind("qvel")[:] = 0.1 * np.random.default_rng(0).normal(size=(members, model.nv))
    march = lambda: all_of_them.step(nstep=steps)  # noqa: E731
    return 1e6 * min(processor_time(march) for _ in range(REPEATS)) / members / steps


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", default=["panda", "quadruped"], metavar="ROBOT")
    parser.add_argument("--members", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=2000)
    options = parser.parse_args()
    print("| | first batch, s | `rkmk4` | MuJoCo, RK4 | MuJoCo, `implicitfast` | over RK4 |\n|---|---|---|---|---|---|")
    for name in options.robots:
        robot = ROBOTS[name]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            how: dict[str, Any] = {"floating": True} if robot.floating else {}
            model = ph.load_model(robot.path, **how)
            problem, text = model.problem(), model.to_mjcf()
        first, own = batch(problem, options.members, options.steps)
        theirs = [
            mujoco_batch(text, problem.h, integrator, options.members, options.steps // 40)
            for integrator in ("RK4", "IMPLICITFAST")
        ]
        figures = (first, own, *theirs, own / theirs[0])
        print(f"| {name} | {' | '.join(f'{x:.3g}' for x in figures)} |", flush=True)


if __name__ == "__main__":
    main()
