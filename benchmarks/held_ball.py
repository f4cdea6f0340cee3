"""A ball that Panda's gripper of robosuite holds against gravity by its position servos, for ten seconds.

python benchmarks/held_ball.py

Prints forces of both fingers on the ball, their slip, and how far the ball moves in the last half of the run. Needs the
extra `survey`.
"""

from __future__ import annotations

import tempfile
import warnings
from pathlib import Path

import numpy as np
from robots import Robot

import polhode as ph

BALL = (
    """<body name="ball" pos="0 0 0.0934"><freejoint/><geom name="ball" type="sphere" size="0.02" mass="0.1"/></body>"""
)
GRIP = '<keyframe><key name="grip" qpos="0.0205 -0.0205 0 0 0.0934 1 0 0 0" ctrl="0 0"/></keyframe>'


def problem() -> ph.Problem:
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


def main() -> None:
    run = ph.simulate(problem(), save_every=20)
    for finger in ("leftfinger", "rightfinger"):
        touch = run.contacts[finger, "ball"]
        print(f"{finger}: {touch.mode[-1]}, {touch.force[-1]} N, slip {np.max(np.abs(touch.slip)):.1e} m/s")
    place = run.bodies["ball"].position
    print(f"moved {np.max(np.ptp(place[len(place) // 2 :], axis=0)):.1e} m")


if __name__ == "__main__":
    main()
