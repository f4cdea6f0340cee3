"""A ring of bonded spheres that breathes: polhode."""

import json

import numpy as np

import polhode as ph
from polhode import particles as pt

n, diameter = 2000, 30.0
ring = pt.torus(n, diameter)
bonds = pt.BondMaterial(bending=10.0, axial=0.05, shear=0.05)
system = pt.Particles(1.0, 1.0, ring.diameters, ring.positions, ring.pairs, bonds)
outwards = ring.positions / (diameter / 2)
run = ph.simulate(
    system, "rodrigues", state0=system.start(ring.positions, 0.05 * outwards), t1=100.0, h=1e-2, save_every=None
)
radius = np.linalg.norm(run.outputs["positions"][-1], axis=1)
print(json.dumps({"numbers": [radius.mean()], "circle off by": float(np.ptp(radius))}))
