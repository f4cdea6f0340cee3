"""A horizontal rod that is clamped at one end and let go under its own weight: polhode."""

import json

import numpy as np

import polhode as ph

model = ph.Model(gravity=(0, 0, -9.81))
section = ph.rods.circular(0.02, youngs_modulus=1e7, shear_modulus=4e6, density=1000.0, shear_correction=27 / 28)
rod = model.add_rod(
    points=np.linspace(0, 1, 41)[:, None] * (1.0, 0, 0), normal=(0, 0, 1), section=section, clamped="first"
)
run = ph.simulate(model.problem(t1=0.5, h=1e-3), save_every=None)
tip = run.bodies[rod.last.name].position[-1]
print(json.dumps({"numbers": tip[[0, 2]].tolist()}))
