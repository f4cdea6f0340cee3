"""A satellite that a reaction wheel turns, and what is conserved: the angular momentum of both.

`python examples/spacecraft.py FOLDER` writes spacecraft.png into FOLDER.
"""

import sys
from pathlib import Path

import jax.numpy as jnp
import matplotlib.pyplot as plt
import numpy as np

import polhode as ph

folder = Path(sys.argv[1] if sys.argv[1:] else ".")
hull, wheel = np.array([120.0, 100.0, 80.0]), np.array([0.1, 0.1, 0.2])  # principal moments, kg m²

model = ph.Model(units="SI")
bus = model.add_body(mass=400.0, inertia=hull, position=(0, 0, 0), name="bus")
rotor = model.add_body(mass=8.0, inertia=wheel, position=(0, 0, 0), name="wheel")
model.add(ph.joints.Revolute(bus, rotor, point=(0, 0, 0), axis=(0, 0, 1), name="bearing"))
# The wheel makes so many radians within a minute, from rest to rest, that the satellite turns by -90°.
turn = np.pi / 2 * (hull[2] + wheel[2]) / wheel[2]
motor = ph.joints.PrescribedRotation(
    bus, rotor, axis=(0, 0, 1), angle=lambda t: turn * (t / 60 - jnp.sin(jnp.pi * t / 30) / (2 * jnp.pi)), name="motor"
)
model.add(motor)

run = ph.simulate(model.problem("SE3", t1=60.0, h=0.02), "generalized-alpha", save_every=10)
rotation = run.bodies["bus"].rotation
heading = np.degrees(np.unwrap(np.arctan2(rotation[:, 1, 0], rotation[:, 0, 0])))
speed = np.gradient(run.joints["bearing"].angle, run.t)
print(f"the satellite turns by {heading[-1]:.4f}°, the wheel by {run.joints['bearing'].angle[-1]:.1f} rad")
print(f"fastest {speed.max():.1f} rad/s, largest torque {np.abs(run.joints['motor'].torque).max():.3f} N m")

# Nothing acts from outside: what the wheel has of angular momentum, the satellite has with the opposite sign.
momentum = (hull[2] + wheel[2]) * np.gradient(np.radians(heading), run.t) + wheel[2] * speed
print(f"angular momentum below {np.abs(momentum).max():.0e} N m s")

figure, axes = plt.subplots(layout="constrained")
axes.plot(run.t, heading)
axes.set(xlabel="time, s", ylabel="heading, °", title="Satellite with a reaction wheel")
figure.savefig(folder / "spacecraft.png")
