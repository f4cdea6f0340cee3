"""Robots of files that stand, or lie, on a floor for thirty seconds, without a setting of contacts.

python benchmarks/standing_robots.py [humanoid] [anymal] … [--seconds 30]

Each is read with `floor=True`, and `contacts=True` where marked; every hinge has a spring and a damper that hold it
where it starts. Columns: velocities; contacts that are looked at; processor time from the file to the first 20 steps,
with empty caches; processor time a step of code compiled quickly and, with `--optimised`, with most effort; how far any
contact that is pressed moves in the last third of the run; by how much the sum of forces of the floor differs from the
weight, over it; how the run ended. ANYmal on waves has feet on a height field, 5 cm from crest to trough, and the gap
of the feet is printed; Spot's file switches gravity off, which is on here. Needs the extra `survey`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from pathlib import Path
from typing import NamedTuple

import numpy as np
from optimised_code import with_most_effort
from robots import DATA, Robot

import polhode as ph

STEP = 0.005


class Standing(NamedTuple):
    """A robot of a file with the springs of its hinges, whether its links touch each other, whether it stands on waves
    and whether its file has gravity."""

    robot: Robot
    stiffness: float
    damping: float
    contacts: bool = False
    room: int | None = None
    waves: bool = False
    gravity: bool = True


STANDING = {
    "humanoid": Standing(Robot("gymnasium", "envs/mujoco/assets/humanoid.xml"), 2000.0, 200.0),
    "humanoid of dm_control": Standing(Robot("dm_control", "suite/humanoid.xml"), 2000.0, 200.0),
    "humanoid of dm_control, with itself in contact": Standing(
        Robot("dm_control", "suite/humanoid.xml"), 2000.0, 200.0, contacts=True
    ),
    "humanoid that falls": Standing(
        Robot("gymnasium", "envs/mujoco/assets/humanoid.xml"), 50.0, 5.0, contacts=True, room=16
    ),
    "anymal": Standing(Robot(DATA, "anymal_c_simple_description/urdf/anymal.urdf", floating=True), 500.0, 20.0),
    "anymal on waves": Standing(
        Robot(DATA, "anymal_c_simple_description/urdf/anymal.urdf", floating=True), 500.0, 20.0, waves=True
    ),
    "quadruped": Standing(Robot("dm_control", "suite/quadruped.xml"), 500.0, 20.0),
    "spot": Standing(Robot("robosuite", "robots/spot/robot.xml"), 500.0, 20.0, room=4, gravity=False),
    "talos": Standing(Robot(DATA, "talos_data/robots/talos_reduced.urdf", floating=True), 5000.0, 100.0),
    "talos with grippers": Standing(Robot(DATA, "talos_data/robots/talos_full_v2.urdf", floating=True), 5000.0, 100.0),
    "g1": Standing(Robot(DATA, "g1_description/urdf/g1_29dof_rev_1_0.urdf", floating=True), 1000.0, 50.0),
    "tiago": Standing(Robot(DATA, "tiago_description/robots/tiago.urdf", floating=True), 1000.0, 50.0),
    "allegro": Standing(Robot(DATA, "allegro_hand_description/urdf/allegro_right_hand.urdf", floating=True), 10.0, 0.5),
    "dog": Standing(Robot("dm_control", "suite/dog.xml"), 1000.0, 50.0),
}


def load(which: Standing) -> tuple[ph.Problem, float]:
    """The problem, and the weight of the robot."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        options = {"floating": True} if which.robot.floating else {}
        source = which.robot.path if which.gravity else add_gravity(which.robot.path)
        floor = -1.0 if which.waves else True
        loaded = ph.load_model(source, floor=floor, contacts=which.contacts, **options)
    for joint in loaded.joints.values():
        if joint.kind == "hinge":
            loaded.model.add(ph.forces.JointSpring(joint, stiffness=which.stiffness, damping=which.damping))
    if which.waves:
        add_waves(loaded.model)
    if which.room is not None:
        loaded.model.limit_contacts(which.room)
    # Inertias of rotors are bodies without weight.
    mass = sum(float(body.mass) for body in loaded.model.bodies if body.kind != "coordinate")
    return loaded.problem(t1=1.0, h=STEP), mass * float(np.linalg.norm(loaded.model.gravity))


def add_waves(model: ph.Model) -> None:
    """Waves that the spheres of feet touch, with the nearest one 1 mm above them."""
    feet = [(body, shape) for body in model.bodies for shape in body.shapes if isinstance(shape, ph.shapes.Sphere)]
    places = [np.asarray(shape.pose_in((body.x, body.R))[0]) for body, shape in feet]
    side = np.linspace(-2.0, 2.0, 41)
    wave = lambda x, y: 0.025 * np.sin(3 * x + 0.4) * np.cos(2 * y)  # noqa: E731
    level = min(z - shape.radius - wave(x, y) for (x, y, z), (_, shape) in zip(places, feet, strict=True)) - 1e-3
    terrain = ph.shapes.Heightfield(
        wave(*np.meshgrid(side, side, indexing="ij")), (4.0, 4.0), position=(0, 0, level), name="waves"
    )
    model.ground.add_shape(terrain)
    for _, shape in feet:
        model.add_contact(terrain, shape, friction=0.8)


def add_gravity(path: Path) -> str:
    """The text of a file that switches gravity off, with gravity."""
    text = path.read_text().replace('file="meshes/', f'file="{path.parent}/meshes/')
    return text.replace('gravity="0 0 0"', 'gravity="0 0 -9.81"')


def processor_time(problem: ph.Problem, steps: int = 3000) -> float:
    """Of a step, in µs: the least of three runs, without what runs of few steps take."""

    def run(count: int) -> float:
        began = time.process_time()
        ph.simulate(problem, t1=count * STEP, save_every=count)
        return time.process_time() - began

    short, long = (min(run(count) for _ in range(3)) for count in (20, steps))
    return 1e6 * (long - short) / (steps - 20)


def measure(name: str, seconds: float, optimised: bool) -> str:
    which, began = STANDING[name], time.process_time()
    problem, weight = load(which)
    ph.simulate(problem, t1=20 * STEP)
    first = time.process_time() - began
    end, costs = "stood", [processor_time(problem)]
    if optimised:
        with_most_effort(lambda: ph.simulate(problem, t1=20 * STEP))
        costs.append(processor_time(problem))
    try:
        run = ph.simulate(problem, t1=seconds, save_every=int(seconds / STEP / 300))
    except ph.SimulationError as error:
        run, end = error.solution, str(error.reason)[:60]
    late = np.asarray(run.t) > 2 / 3 * run.t[-1]
    floor = run.contacts["waves" if which.waves else "floor"]
    pressed = np.all(floor.normal_forces[late] > 0, axis=0)
    drift = float(np.ptp(floor.points[late][:, pressed], axis=0).max(initial=0.0))
    force, contacts = float(floor.force[-1, 2]), problem.system.contact_set.count
    each = " / ".join(f"{cost:.0f}" for cost in costs)
    return (
        f"| {name} | {problem.state0[1].size} | {contacts} | {first:.1f} | {each} | {drift:.1e} | "
        f"{abs(abs(force) / weight - 1):.1e} | {end} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", choices=[[], *STANDING], metavar="ROBOT")
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--optimised", action="store_true")
    options = parser.parse_args()
    print(
        "| | velocities | contacts | first, s | a step, µs | drift, m | force over weight − 1 | end |\n|" + "---|" * 8
    )
    for name in options.robots or STANDING:
        print(measure(name, options.seconds, options.optimised), flush=True)


if __name__ == "__main__":
    main()
