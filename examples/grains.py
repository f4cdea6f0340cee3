"""Grains that are poured into a box and come to rest: how high they lie, and what they press on the floor with.

`python examples/grains.py FOLDER` writes grains.html into FOLDER.
"""

import sys
from pathlib import Path

import numpy as np

import polhode as ph
from polhode import particles as pt

folder = Path(sys.argv[1] if sys.argv[1:] else ".")
diameter, mass, g = 0.01, 1e-3, 9.81  # m, kg, m/s²

# A loose lattice of spheres, each a little off its place, above the floor of a box that is open at the top.
lattice = np.stack(np.meshgrid(*map(np.arange, (4, 4, 6)), indexing="ij"), axis=-1).reshape(-1, 3)
shifts = np.random.default_rng(0).uniform(-0.1, 0.1, lattice.shape)
positions = diameter * (1.3 * lattice + shifts + 1.0)
grains = pt.Particles(
    mass,
    inertias=0.1 * mass * diameter**2,
    diameters=diameter,
    positions=positions,
    contact=0.05,  # J, an energy: Hertz's law
    contact_damping=0.2,  # N s/m
    capacity=30,  # neighbours for which there is room: a dense pile has more than the lattice
    walls=(pt.Box(lower=(0, 0, 0), upper=(0.06, 0.06, np.inf)),),
    gravity=(0, 0, -g),
)
run = ph.simulate(grains, "rodrigues", state0=grains.start(positions), t1=1.0, h=1e-4, save_every=100)

places = run.outputs["positions"]
height = places[:, :, 2].max(axis=1) + diameter / 2
weight = len(positions) * mass * g
gained = np.diff(run.outputs["linear_momentum"][:, 2]) / np.diff(run.t)
print(f"{len(positions)} grains, {height[0] * 100:.1f} cm high before they fall and {height[-1] * 100:.1f} cm after")
print(f"force on the floor {gained[-10:].mean() + weight:.3f} N, weight {weight:.3f} N")
speed = np.linalg.norm(places[-1] - places[-2], axis=1).max() / (run.t[-1] - run.t[-2])
print(f"fastest at the end {speed * 1e3:.3f} mm/s")

ph.export(run, folder / "grains.html")
