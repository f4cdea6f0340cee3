"""Joints of files whose stops and dry friction are rigid: what leans on them, and what they hold.

python benchmarks/rigid_joints.py [panda] [ur5]

Each robot is read with `joint_law="rigid"` and `positions` within its ranges. `stop`: one joint falls on its stop while
springs hold the others; the force of the stop is compared with the moment that the weight has in MuJoCo, from the file
that `to_mjcf` writes. `held`: dry friction holds all hinges for ten seconds; how much they turn, and how far friction
is from these moments. Columns: what, joints, processor time with compiling, largest difference of moments over the
largest moment, and the most that a joint turned. Needs the extra `survey`.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import NamedTuple

import mujoco
import numpy as np
from robots import ROBOTS

import polhode as ph


class Machine(NamedTuple):
    """A robot, the joint that falls on its stop, and the friction that holds each of its joints, in N m."""

    robot: str
    falls: str
    friction: float


MACHINES = {
    "panda": Machine("panda", "panda_joint2", 60.0),
    "ur5": Machine("ur5", "", 80.0),
}


def load(which: Machine) -> ph.ImportedModel:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        loaded, middle = ph.load_model(ROBOTS[which.robot].path), {}
        for name, joint in loaded.joints.items():
            if joint.limits is not None and not joint.limits[0] <= joint.start <= joint.limits[1]:
                middle[name] = 0.5 * sum(joint.limits)
        return ph.load_model(ROBOTS[which.robot].path, joint_law="rigid", positions=middle or None)


def weights(loaded: ph.ImportedModel, places: dict[str, float]) -> dict[str, float]:
    """Moments of the weight about joints, by MuJoCo."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = mujoco.MjModel.from_xml_string(loaded.to_mjcf())
    data = mujoco.MjData(model)
    for name, place in places.items():
        data.joint(name).qpos = place
    mujoco.mj_forward(model, data)
    return {name: -float(data.joint(name).qfrc_bias[0]) for name in places}


def measure(name: str, what: str) -> str:
    which, loaded, began = MACHINES[name], load(MACHINES[name]), time.process_time()
    for joint in loaded.joints.values():
        if what == "held":
            loaded.model.add(ph.forces.JointFriction(joint, which.friction))
        elif joint.name != which.falls:
            loaded.model.add(ph.forces.JointSpring(joint, stiffness=500.0, damping=50.0, rest=joint.start))
        else:
            loaded.model.add(ph.forces.JointSpring(joint, stiffness=0.0, damping=5.0))
    run = ph.simulate(loaded.problem(t1=10.0, h=0.005), save_every=20)
    took = time.process_time() - began
    places = {joint: np.asarray(run.joints[joint].coordinate()) for joint in loaded.joints}
    moments = weights(loaded, {joint: float(place[-1]) for joint, place in places.items()})
    # Both slides of a gripper share their weights, as one follows the other.
    of = [j.name for j in loaded.joints.values() if j.kind == "hinge"] if what == "held" else [which.falls]
    carried = {j: float(run.joints[j].friction[-1] + run.joints[j].stop_force[-1]) for j in of}
    largest = max(abs(moment) for moment in moments.values())
    difference = max(abs(moments[j] + carried[j]) for j in of) / largest
    turned = max(float(np.ptp(places[j] if what == "held" else places[j][-50:])) for j in of)
    modes = {str(run.joints[j].mode[-1]) for j in of}
    return (
        f"| {name}, {what}: {', '.join(sorted(modes))} | {len(places)} | {took:.1f} | {difference:.1e} of "
        f"{largest:.3g} N m | {turned:.1e} |"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("machines", nargs="*", choices=[[], *MACHINES], metavar="MACHINE")
    print("| | joints | s | difference of moments | turned, rad |\n|" + "---|" * 5)
    for name in parser.parse_args().machines or MACHINES:
        for what in ("stop", "held") if MACHINES[name].falls else ("held",):
            print(measure(name, what), flush=True)


if __name__ == "__main__":
    main()
