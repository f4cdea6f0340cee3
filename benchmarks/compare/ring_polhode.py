"""A ring of bonded spheres that breathes: polhode."""

import numpy as np

import polhode as ph
from polhode import particles as pt

FIRST = {"h": 0.2}


def prepare(h):
    n, diameter = 2000, 30.0
    ring = pt.torus(n, diameter)
    bonds = pt.BondMaterial(bending=10.0, axial=0.05, shear=0.05)
    system = pt.Particles(1.0, 1.0, ring.diameters, ring.positions, ring.pairs, bonds)
    outwards = ring.positions / (diameter / 2)
    return system, system.start(ring.positions, 0.05 * outwards), h


def march(prepared):
    system, start, h = prepared
    run = ph.simulate(system, "rodrigues", state0=start, t1=100.0, h=h, save_every=None)
    radius = np.linalg.norm(run.outputs["positions"][-1], axis=1)
    numbers, spent = [radius.mean()], run.stats["wall_time_s"]
    return {"numbers": numbers, "steps": run.stats["steps"], "marching": spent, "circle off by": np.ptp(radius)}
