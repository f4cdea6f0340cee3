"""Quadrupeds that land and stand on a floor, in one ensemble: lanes of the processor, or a device.

python benchmarks/quadrupeds.py [--robot anymal] [--members 1024] [--by lanes devices] [--steps 400]

`nine` bodies with spheres for feet whose masses differ, or ANYmal of its file, which needs the extra `survey`, whose
members start with different speeds. Prints what the processor did, and the memory that the process had at most.
"""

from __future__ import annotations

import argparse
import resource
import time
from typing import Any

import jax
import numpy as np
from standing_robots import STANDING, load

import polhode as ph

STEP = 0.005


def quadruped() -> ph.Problem:
    """Nine bodies, eight hinges with springs and dampers, four spheres as feet, 2 cm above the floor."""
    model = ph.Model(gravity=(0, 0, -9.81))
    model.ground.add_shape(ph.shapes.Plane())
    base = model.add_body(mass=ph.Parameter("mass", 10.0), inertia=(0.1, 0.3, 0.35), position=(0, 0, 0.55), name="base")
    for number, (front, left) in enumerate([(1, 1), (1, -1), (-1, 1), (-1, -1)]):
        hip = np.array([0.3 * front, 0.15 * left, 0.55])
        beside = hip + np.array([0, 0.05 * left, 0])
        thigh = model.add_body(
            mass=1.0, inertia=(0.01, 0.01, 0.002), position=beside - [0, 0, 0.12], name=f"thigh-{number}"
        )
        foot = ph.shapes.Sphere(0.03, position=(0, 0, -0.13), name=f"foot-{number}")
        shank = model.add_body(
            mass=0.3, inertia=(0.004, 0.004, 0.0005), position=beside - [0, 0, 0.37], name=f"shank-{number}", shape=foot
        )
        joints = (
            ph.joints.Revolute(base, thigh, point=hip, axis=(0, 1, 0), name=f"hip-{number}"),
            ph.joints.Revolute(thigh, shank, point=beside - [0, 0, 0.25], axis=(0, 1, 0), name=f"knee-{number}"),
        )
        for joint in joints:
            model.add(joint)
            model.add(ph.forces.JointSpring(joint, stiffness=80.0, damping=2.0))
    model.contacts(friction=0.8)
    return model.problem(t1=2.0, h=STEP)


def members(robot: str, count: int) -> tuple[ph.Problem, dict[str, Any]]:
    """A problem, and in what its members differ."""
    if robot == "nine":
        return quadruped(), {"parameters": {"mass": np.linspace(8, 12, count)}}
    problem, _ = load(STANDING[robot])
    start = jax.tree.map(lambda x: np.repeat(np.asarray(x)[None], count, axis=0), problem.state0)
    start[1][:, 0] += np.linspace(0, 0.01, count)
    return problem, {"states": start}


def main() -> None:
    """Print times of a first and of a second run, and how far the members are from rest."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", default="nine", choices=["nine", *STANDING])
    parser.add_argument("--members", type=int, default=1024)
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--by", nargs="+", default=["lanes"], choices=["lanes", "devices"])
    arguments = parser.parse_args()
    (problem, differ), ends = members(arguments.robot, arguments.members), {}
    for by in arguments.by:
        for turn in ("first", "second"):
            began, used = time.perf_counter(), time.process_time()
            runs = ph.ensemble(problem, t1=arguments.steps * STEP, save_every=arguments.steps, by=by, **differ)
            wall, used = time.perf_counter() - began, time.process_time() - used
            each = 1e6 / arguments.steps / arguments.members
            print(
                f"{by}, {turn} run: {wall:.1f} s, {wall * each:.2f} us a step and member (processor {used:.1f} s, "
                f"{used * each:.2f}), by {runs.stats['by']}"
            )
        ends[by] = np.asarray(runs.dataset["state.1"])[:, -1]
        print(f"{by}: {len(runs.failed)} failed, largest speed at the end {np.max(np.abs(ends[by])):.1e}", flush=True)
    if len(ends) == 2:
        print(f"largest difference of speeds: {np.max(np.abs(ends['lanes'] - ends['devices'])):.1e}")
    print(f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.2f} GB")


if __name__ == "__main__":
    main()
