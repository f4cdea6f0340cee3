"""Machines with closed loops in joint and in absolute coordinates: time to the first steps, time a step, drift.

    python benchmarks/closed_loops.py [leg] [stewart] … [--coordinates minimal SO3xR3] [--quick] [--json]

All machines by default, each one in each kind of coordinates in a process of its own. `start` is the processor time
from the model to the first twenty steps, without what is kept only with empty caches; `quick` that of the first 500
steps, `µs` that of code compiled with most effort,
left out with `--quick`, by the clock of the thread. `opens by` is the largest violation of
the joints over 500 steps, `error` the largest difference of positions of bodies from a run with a step of a quarter.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from unittest import mock

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np
from optimised_code import with_most_effort

import polhode as ph
from polhode import joints

STEPS = 500
REDUNDANT = "minimum-norm"
COORDINATES = ("minimal", "SO3xR3")
HALF_HUB = np.array((0.05, 0.0, 0.0))
MODELS = Path(__file__).parent / "models"


@dataclasses.dataclass
class Row:
    """Measurements of a machine in one kind of coordinates."""

    machine: str
    coordinates: str
    velocities: int = 0
    constraints: int = 0
    method: str = ""
    start: float = np.nan
    quick: float = np.nan
    microseconds: float = np.nan
    gap: float = np.nan
    error: float = np.nan
    trouble: str = ""


# --- machines ---------------------------------------------------------------------------------------------------------


def rod(model: ph.Model, ends: tuple[np.ndarray, np.ndarray], mass: float, name: str | None = None) -> ph.Body:
    """A slender body between two points, with the x-axis of its frame along them."""
    along = ends[1] - ends[0]
    length = float(np.linalg.norm(along))
    x = along / length
    y = np.cross(x, (0.0, 0.6, 0.8) if abs(x[0]) > 0.9 else (1.0, 0.0, 0.0))
    y /= np.linalg.norm(y)
    across = mass * length**2 / 12
    return model.add_body(
        mass=mass,
        inertia=(0.05 * across, across, across),
        position=(ends[0] + ends[1]) / 2,
        rotation=np.column_stack((x, y, np.cross(x, y))),
        name=name,
    )


def platform(model: ph.Model, carrier: ph.Body, height: float, number: int = 0) -> ph.Body:
    """A Stewart platform on a carrier: six legs of a universal joint, a slide with a spring, and a ball."""
    plate = model.add_body(mass=4.0, inertia=(0.1, 0.1, 0.2), position=(0, 0, height + 0.8), name=f"plate-{number + 1}")
    for k in range(6):
        low, high = (np.pi / 3 * (2 * (k // 2) + s * (k % 2 * 2 - 1)) for s in (0.2, 0.8))
        foot = np.array([0.6 * np.cos(low), 0.6 * np.sin(low), height])
        head = np.array([0.4 * np.cos(high), 0.4 * np.sin(high), height + 0.8])
        along = (head - foot) / np.linalg.norm(head - foot)
        across = np.cross(along, (0.0, 0.0, 1.0))
        across /= np.linalg.norm(across)
        lower = rod(model, (foot, foot + 0.55 * (head - foot)), 0.6)
        upper = rod(model, (foot + 0.45 * (head - foot), head), 0.4)
        second = np.cross(along, across)
        model.add(joints.Universal(carrier, lower, point=foot, first_axis=across, second_axis=second))
        slide = model.add(joints.Prismatic(lower, upper, axis=along))
        model.add(ph.forces.JointSpring(slide, stiffness=400.0 + 40 * k, damping=4.0))
        model.add(joints.Spherical(upper, plate, point=head))
    return plate


def stewart() -> ph.Model:
    model = ph.Model(gravity=(0.5, 0.3, -9.81))
    platform(model, model.ground, 0.0)
    return model


def tower() -> ph.Model:
    """Three Stewart platforms, one on top of the other."""
    model = ph.Model(gravity=(0.5, 0.3, -9.81))
    carrier = model.ground
    for k in range(3):
        carrier = platform(model, carrier, 0.8 * k, k)
    return model


def gripper() -> ph.Model:
    """A hand on an arm of three hinges, with three fingers of a four-bar linkage and a distal link each."""
    model = ph.Model(gravity=(0.2, 0.1, -9.81))
    last, at = model.ground, np.zeros(3)
    for k, axis in enumerate(((0, 0, 1), (0, 1, 0), (0, 1, 0))):
        end = at + np.array((0.1 if k == 0 else 0.3, 0.0, 0.2 if k == 0 else -0.05))
        link = rod(model, (at, end), 1.0, f"arm-{k + 1}")
        hinge = model.add(joints.Revolute(last, link, point=at, axis=axis))
        model.add(ph.forces.JointSpring(hinge, stiffness=60.0, damping=1.0))
        last, at = link, end
    for k in range(3):
        angle = 2 * np.pi / 3 * k
        out, axis = np.array((0.0, np.cos(angle), np.sin(angle))), np.array((0.0, -np.sin(angle), np.cos(angle)))
        place = lambda x, r, out=out, at=at: at + x * np.array((1.0, 0, 0)) + r * out  # noqa: E731
        a, b, c, d = place(0.02, 0.03), place(0.07, 0.08), place(0.11, 0.05), place(0.04, 0.012)
        crank, coupler, follower = (rod(model, ends, 0.05) for ends in ((a, b), (b, c), (d, c)))
        tip = rod(model, (c, place(0.15, 0.04)), 0.03)
        motor = model.add(joints.Revolute(last, crank, point=a, axis=axis))
        model.add(joints.Revolute(crank, coupler, point=b, axis=axis))
        model.add(joints.Revolute(coupler, follower, point=c, axis=axis))
        model.add(joints.Revolute(follower, last, point=d, axis=axis))
        pad = model.add(joints.Revolute(coupler, tip, point=c, axis=axis))
        model.add(ph.forces.JointSpring(motor, stiffness=0.5 + 0.1 * k, damping=0.02))
        model.add(ph.forces.JointSpring(pad, stiffness=0.1, damping=0.002))
    return model


def biped() -> ph.Model:
    """A floating pelvis on two legs of three hip axes, a knee and an ankle, with two rods each, as Cassie has them."""
    model = ph.Model(gravity=(0.0, 0.0, -9.81))
    pelvis = model.add_body(mass=10.0, inertia=(0.1, 0.06, 0.08), position=(0, 0, 1.0), name="pelvis")
    for side in (1.0, -1.0):
        at = lambda x, z, y=0.0, s=side: np.array((x, s * (0.12 + y), z))  # noqa: E731
        hip, knee, ankle, toe = at(0.0, 0.95), at(0.12, 0.58), at(0.0, 0.2), at(0.14, 0.05)
        roll, yaw = (rod(model, (hip - HALF_HUB, hip + HALF_HUB), 1.0) for _ in range(2))
        thigh, shin, tarsus = (
            rod(model, (hip, knee), 4.0),
            rod(model, (knee, ankle), 1.0),
            rod(model, (ankle, toe), 1.0),
        )
        foot = rod(model, (toe - HALF_HUB, toe + 2 * HALF_HUB), 0.3)
        heel, crank = at(-0.06, 0.26, 0.03), at(0.08, 0.17, 0.03)
        model.add(joints.Revolute(pelvis, roll, point=hip, axis=(1, 0, 0)))
        model.add(joints.Revolute(roll, yaw, point=hip, axis=(0, 0, 1)))
        lift = model.add(joints.Revolute(yaw, thigh, point=hip, axis=(0, 1, 0)))
        bend = model.add(joints.Revolute(thigh, shin, point=knee, axis=(0, 1, 0)))
        model.add(joints.Revolute(shin, tarsus, point=ankle, axis=(0, 1, 0)))
        tip = model.add(joints.Revolute(tarsus, foot, point=toe, axis=(0, 1, 0)))
        achilles = rod(model, (at(0.0, 0.9, 0.03), heel), 0.2)
        model.add(joints.Spherical(thigh, achilles, point=at(0.0, 0.9, 0.03)))
        model.add(joints.Spherical(achilles, tarsus, point=heel))
        plantar = rod(model, (crank, toe - (0.05, 0, 0)), 0.1)
        arm = rod(model, (at(0.05, 0.2, 0.03), crank), 0.1)
        model.add(joints.Revolute(tarsus, arm, point=at(0.05, 0.2, 0.03), axis=(0, 1, 0)))
        model.add(joints.Spherical(arm, plantar, point=crank))
        model.add(joints.Spherical(plantar, foot, point=toe - (0.05, 0, 0)))
        for joint, stiffness in ((lift, 100.0), (bend, 100.0), (tip, 20.0)):
            model.add(ph.forces.JointSpring(joint, stiffness=stiffness, damping=1.0, rest=0.2))
    return model


def leg() -> ph.Model:
    return ph.load_model(MODELS / "leg.xml")


MACHINES: dict[str, Callable[[], ph.Model]] = {
    "leg": leg,
    "gripper": gripper,
    "biped": biped,
    "stewart": stewart,
    "tower": tower,
}


# --- measurements -----------------------------------------------------------------------------------------------------


def measure(machine: str, coordinates: str, quick: bool) -> Row:
    row = Row(machine, coordinates)
    began = time.process_time()
    problem = MACHINES[machine]().problem(coordinates, redundant=REDUNDANT, h=1e-3, t1=1e-3 * STEPS)
    row.method, row.velocities = problem.integrator, int(np.size(problem.state0[1]))
    row.constraints = int(problem.system.m)

    def march(steps: int) -> float:
        with mock.patch.object(time, "perf_counter", time.thread_time):
            run = ph.simulate(problem, h=problem.h, t1=steps * problem.h, save_every=None)
        return 1e6 * run.stats["wall_time_s"] / steps

    march(20)
    row.start = time.process_time() - began
    row.quick = march(STEPS)
    run, finer = (ph.simulate(problem, h=h, save_at=[0.25, 0.5]) for h in (1e-3, 2.5e-4))
    if not quick:
        with_most_effort(lambda: march(STEPS // 10))
        row.microseconds = min(march(STEPS) for _ in range(5))
    row.gap = float(np.max(run.residuals.get("position", 0.0)))
    row.error = float(np.max(np.abs(run.outputs["positions"] - finer.outputs["positions"])))
    return row


def measure_apart(machine: str, coordinates: str, quick: bool) -> Row:
    """The same in a process of its own."""
    command = [
        sys.executable,
        __file__,
        machine,
        "--coordinates",
        coordinates,
        "--here",
        *(["--quick"] if quick else []),
    ]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        return Row(machine, coordinates, trouble=(done.stderr.strip().splitlines() or ["nothing said"])[-1])
    return Row(**json.loads(done.stdout.splitlines()[-1]))


HEAD = "| | coordinates | velocities, constraints | method | start, s | quick, µs | µs | opens by | error |"


def line(row: Row) -> str:
    columns = [
        row.machine,
        f"`{row.coordinates}`",
        f"{row.velocities}, {row.constraints}",
        f"`{row.method}`",
        *(f"{x:.3g}" for x in (row.start, row.quick, row.microseconds)),
        *(f"{x:.1e}" for x in (row.gap, row.error)),
    ]
    return f"| {' | '.join(columns)} |{' ' if row.trouble else ''}{row.trouble}"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="*", choices=[[], *MACHINES], metavar="MACHINE", help=", ".join(MACHINES))
    parser.add_argument("--coordinates", nargs="+", default=COORDINATES)
    parser.add_argument("--quick", action="store_true", help="without code compiled with most effort")
    parser.add_argument("--json", action="store_true", help="rows as JSON objects")
    parser.add_argument("--here", action="store_true", help="one machine in this process")
    options = parser.parse_args()
    if options.here:
        print(json.dumps(dataclasses.asdict(measure(options.machines[0], options.coordinates[0], options.quick))))
        return
    print(f"{HEAD}\n{'|---' * (HEAD.count('|') - 1)}|", flush=True)
    for machine in options.machines or MACHINES:
        for coordinates in options.coordinates:
            row = measure_apart(machine, coordinates, options.quick)
            print(json.dumps(dataclasses.asdict(row)) if options.json else line(row), flush=True)


if __name__ == "__main__":
    main()
