"""A ball that hands of files hold against gravity by their position servos, for ten seconds or more.

python benchmarks/held_ball.py [gripper] [hand] [--seconds 10]

`gripper`: Panda's of robosuite, between whose fingers the ball hangs by friction. `hand`: the Shadow hand of
gymnasium-robotics, palm upwards, whose fingers and thumb bend about a ball that falls on the palm. Prints for every
part that touches the ball its force at the end, whether it sticks, and its slip; the sum of forces and the weight;
how far the ball moves in the last half of the run; processor time. Needs the extra `survey`.
"""

from __future__ import annotations

import argparse
import tempfile
import time
import warnings
from pathlib import Path

import mujoco
import numpy as np
from robots import Robot

import polhode as ph

BALL = (
    """<body name="ball" pos="0 0 0.0934"><freejoint/><geom name="ball" type="sphere" size="0.02" mass="0.1"/></body>"""
)
GRIP = '<keyframe><key name="grip" qpos="0.0205 -0.0205 0 0 0.0934 1 0 0 0" ctrl="0 0"/></keyframe>'


def gripper() -> ph.Problem:
    path = Robot("robosuite", "assets/grippers/panda_gripper.xml").path
    text = path.read_text().replace('file="meshes/', f'file="{path.parent}/meshes/')
    with tempfile.TemporaryDirectory() as folder, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        file = Path(folder) / "gripper.xml"
        file.write_text(text.replace("</worldbody>", f"{BALL}</worldbody>{GRIP}"))
        loaded = ph.load_model(file, keyframe="grip", floor=-1.0)
    model = loaded.model
    ball = next(body for body in model.bodies if body.name == "ball")
    for body in model.bodies:
        for shape in body.shapes:
            if shape.name and shape.name.endswith("_tip"):
                model.add_contact(shape, ball, friction=2.0)
    return loaded.problem(t1=10.0, h=0.005)


BEND = {"J3": 0.0, "J2": 1.0, "J1": 0.9, "J0": 0.0, "J4": 0.0}
"""Targets of the servos of fingers, in rad, by the last letters of their names."""
THUMB = {"THJ4": 0.7, "THJ3": 1.0, "THJ2": 0.0, "THJ1": -0.3, "THJ0": -0.6}


def hand() -> ph.Problem:
    spec = mujoco.MjSpec.from_file(str(Robot("gymnasium-robotics", "assets/hand/manipulate_egg.xml").path))
    spec.delete(spec.body("target"))
    spec.delete(spec.geom("object_hidden"))
    spec.body("object").name = "ball"
    spec.geom("object").type, spec.geom("object").mass = mujoco.mjtGeom.mjGEOM_SPHERE, 0.1
    controls = {}
    for actuator in spec.actuators:
        joint = actuator.name.removeprefix("robot0:A_")
        controls[actuator.name] = 0.0 if joint.startswith("W") else THUMB.get(joint, BEND[joint[-2:]])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded = ph.load_model(spec, controls=controls, floor=-1.0)
    model = loaded.model
    ball = next(body for body in model.bodies if body.name == "ball")
    for body in model.bodies:
        for shape in body.shapes:
            if body is not ball and isinstance(shape, ph.shapes.Capsule | ph.shapes.Box):
                model.add_contact(shape, ball, friction=1.0)
    return loaded.problem(t1=10.0, h=0.005)


CASES = {"gripper": gripper, "hand": hand}


def measure(name: str, seconds: float) -> None:
    began = time.process_time()
    run = ph.simulate(CASES[name](), t1=seconds, save_every=20)
    print(f"{name}, {seconds:g} s: processor time {time.process_time() - began:.1f} s")
    total = np.zeros(3)
    for pair in run.contacts:
        touch = run.contacts[pair]
        if "ball" not in pair or not np.any(touch.force[-1]):
            continue
        total += touch.force[-1] * (1 if pair.endswith("ball") else -1)
        late = np.asarray(touch.slip)[len(touch.slip) // 2 :]
        print(f"  {pair}: {touch.mode[-1]}, {touch.force[-1]} N, slip {np.max(np.abs(late)):.1e} m/s")
    body = run.bodies["ball"]
    place, weight = body.position, 0.1 * 9.81
    print(f"  sum of forces {total}, weight {weight:.4f} N, difference {np.linalg.norm(total - [0, 0, weight]):.1e}")
    print(f"  ball at {place[-1]} moved {np.max(np.ptp(place[len(place) // 2 :], axis=0)):.1e} m")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("cases", nargs="*", choices=[[], *CASES], metavar="CASE")
    parser.add_argument("--seconds", type=float, default=10.0)
    options = parser.parse_args()
    for name in options.cases or CASES:
        measure(name, options.seconds)


if __name__ == "__main__":
    main()
