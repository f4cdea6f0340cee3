"""An arm from a URDF file, brought to a pose by a controller on each joint.

`python examples/robot.py FOLDER` writes robot.html into FOLDER; needs the extra `import`.
"""

import sys
from pathlib import Path

import numpy as np

import polhode as ph

folder = Path(sys.argv[1] if sys.argv[1:] else ".")

arm = ph.load_model(Path(__file__).parent / "arm.urdf")
print("joints:", ", ".join(arm.joints))
target = {"turn": 0.5, "shoulder": -0.4, "elbow": 0.8}
gain = {"turn": 300.0, "shoulder": 400.0, "elbow": 300.0, "grip": 1000.0}

# Torques stay within the limits of effort that the file gives its joints, infinite ones for two of them.
for name, joint in arm.joints.items():
    k = gain.get(name, 20.0)
    controller = ph.forces.PD(
        joint, proportional=k, derivative=k / 8, target=target.get(name, 0.0), force_limits=joint.force_limits
    )
    arm.model.add(controller)

run = ph.simulate(arm.problem(t1=3.0), save_at=np.linspace(0, 3, 151))
for name, angle in target.items():
    joint = run.joints[name]
    print(f"{name}: {joint.angle[-1]:.3f} of {angle} rad, held by {joint.torque[-1]:.2f} N m")

ph.export(run, folder / "robot.html")
