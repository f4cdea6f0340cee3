"""A robot on four legs: it drops onto a floor, crouches, jumps and stands, by a controller on each joint.

`python examples/hopper.py FOLDER` writes hopper.html into FOLDER.
"""

import sys
from pathlib import Path

import numpy as np

import polhode as ph

folder = Path(sys.argv[1] if sys.argv[1:] else ".")

model = ph.Model(gravity=(0, 0, -9.81), units="SI")
model.ground.add_shape(ph.shapes.Plane(name="floor"))
trunk = model.add_body(mass=6.0, shape=ph.shapes.Box((0.5, 0.3, 0.1)), position=(0, 0, 0.45), name="trunk")

# Each leg is one strut, which slides along the vertical of the trunk: 0 at the start, negative where it is drawn in.
times = (0.0, 0.8, 0.95, 1.0, 1.06, 1.3, 2.5)
lengths = (0.0, 0.0, -0.1, -0.1, 0.08, 0.0, 0.0)
for k, (x, y) in enumerate(((0.2, 0.12), (0.2, -0.12), (-0.2, 0.12), (-0.2, -0.12))):
    leg = model.add_body(mass=0.4, inertia=(0.003, 0.003, 2e-4), position=(x, y, 0.25), name=f"leg {k}")
    leg.add_shape(ph.shapes.Sphere(0.02, position=(0, 0, -0.15), name=f"foot {k}"))
    knee = model.add(ph.joints.Prismatic(trunk, leg, axis=(0, 0, -1), name=f"knee {k}"))
    target = ph.PiecewiseLinear(times, lengths)
    model.add(ph.forces.PD(knee, proportional=6000.0, derivative=150.0, target=target))
    model.add_contact(model.ground, leg, friction=0.7)

run = ph.simulate(model.problem("minimal", t1=2.5, h=0.002), save_every=5)
height = run.bodies["trunk"].position[:, 2]
weight = (6.0 + 4 * 0.4) * 9.81
carried = sum(run.contacts["floor", f"foot {k}"].normal_force for k in range(4))
flies = (carried == 0) & (np.asarray(run.t) > 0.9)
print(f"in the air for {0.01 * flies.sum():.2f} s, highest at {height[run.t > 0.9].max():.3f} m")
print(f"at the end the feet carry {carried[-1]:.2f} of {weight:.2f} N")
print(f"and have moved by {np.ptp(run.bodies['trunk'].position[-30:], axis=0).max():.1e} m in 0.3 s")

ph.export(run, folder / "hopper.html")
