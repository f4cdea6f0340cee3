"""A horizontal rod that is clamped at one end and let go under its own weight: polhode."""

import numpy as np

import polhode as ph

# Edges and steps are halved together.
FIRST = {"h": 0.02}


def prepare(h):
    edges = round(0.1 / h)
    model = ph.Model(gravity=(0, 0, -9.81))
    section = ph.rods.circular(
        0.02, youngs_modulus=1e7, shear_modulus=4e6, density=1000.0, shear_correction=27 / 28
    )  # fmt: skip
    points = np.linspace(0, 1, edges + 1)[:, None] * (1.0, 0, 0)
    rod = model.add_rod(points=points, normal=(0, 0, 1), section=section, clamped="first")
    return model.problem(t1=0.5, h=h), rod.last.name, edges


def march(prepared):
    problem, tip, edges = prepared
    run = ph.simulate(problem, save_every=None)
    numbers, spent = run.bodies[tip].position[-1, [0, 2]], run.stats["wall_time_s"]
    return {"numbers": numbers, "steps": run.stats["steps"], "marching": spent, "edges": edges}
