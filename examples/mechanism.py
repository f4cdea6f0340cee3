"""A crank–rocker with a motor: the torque that it needs, and the forces in its bearings.

`python examples/mechanism.py FOLDER` writes mechanism.html into FOLDER.
"""

import sys
from pathlib import Path

import numpy as np

import polhode as ph

folder = Path(sys.argv[1] if sys.argv[1:] else ".")

# Bars in the plane y = 0, each from one hinge to the next. A kilogram of bar is half a metre long.
ends = {
    "crank": ((0, 0, 0), (0, 0, 0.3)),
    "coupler": ((0, 0, 0.3), (0.8, 0, 0.5)),
    "rocker": ((0.8, 0, 0), (0.8, 0, 0.5)),
}
model = ph.Model(gravity=(0, 0, -9.81), units="SI")
bars = {}
for name, (start, end) in ends.items():
    length = np.linalg.norm(np.subtract(end, start))
    x, y = np.subtract(end, start) / length, (0, 1, 0)
    bars[name] = model.add_body(
        mass=2 * length,
        inertia=(1e-3, length**3 / 6, length**3 / 6),
        position=np.add(start, end) / 2,
        rotation=np.stack([x, y, np.cross(x, y)], axis=1),
        name=name,
    )
Revolute = ph.joints.Revolute
model.add(Revolute(model.ground, bars["crank"], point=(0, 0, 0), axis=y, name="main bearing"))
model.add(Revolute(bars["crank"], bars["coupler"], point=(0, 0, 0.3), axis=y, name="elbow"))
model.add(ph.joints.PointOnLine(bars["coupler"], bars["rocker"], point=(0.8, 0, 0.5), axis=y, name="wrist"))
model.add(Revolute(model.ground, bars["rocker"], point=(0.8, 0, 0), axis=y, name="pivot"))
model.add(ph.joints.PrescribedRotation(model.ground, bars["crank"], axis=y, angle=lambda t: 2 * t**2, name="motor"))

run = ph.simulate(model.problem(t1=2.0))
motor = run.joints["motor"]
print(f"largest torque {np.abs(motor.torque).max():.2f} N m")
print(f"largest force in the main bearing {np.linalg.norm(run.joints['main bearing'].force, axis=1).max():.1f} N")
print(f"turned by {run.joints['main bearing'].angle[-1]:.6f} rad")

# The work of the motor is the gain in energy: the bearings do none.
energy = run.outputs["kinetic_energy"] + run.outputs["potential_energy"]
work = np.trapezoid(motor.power, run.t)
print(f"work of the motor {work:.2f} J, gain in energy {energy[-1] - energy[0]:.2f} J")

ph.export(run, folder / "mechanism.html")
