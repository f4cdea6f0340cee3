"""A four-bar linkage that falls and swings: polhode."""

import numpy as np

import polhode as ph

FIRST = {"h": 0.08}
BARS = {"crank": ((0, 0), (0, 0.3)), "coupler": ((0, 0.3), (0.8, 0.5)), "rocker": ((0.8, 0), (0.8, 0.5))}


def prepare(h):
    model, bar = ph.Model(gravity=(0, 0, -9.81)), {}
    for name, (start, end) in BARS.items():
        start, end = np.insert(start, 1, 0.0), np.insert(end, 1, 0.0)
        length, along = np.linalg.norm(end - start), (end - start) / np.linalg.norm(end - start)
        bar[name] = model.add_body(
            mass=2 * length, inertia=(1e-3, length**3 / 6, length**3 / 6), position=(start + end) / 2, name=name,
            rotation=np.stack([along, (0, 1, 0), np.cross(along, (0, 1, 0))], axis=1),
        )  # fmt: skip
    hinge, y = ph.joints.Revolute, (0, 1, 0)
    model.add(hinge(model.ground, bar["crank"], point=(0, 0, 0), axis=y, name="A"))
    model.add(hinge(bar["crank"], bar["coupler"], point=(0, 0, 0.3), axis=y, name="B"))
    model.add(hinge(model.ground, bar["rocker"], point=(0.8, 0, 0), axis=y, name="D"))
    model.add(ph.joints.PointOnLine(bar["coupler"], bar["rocker"], point=(0.8, 0, 0.5), axis=y, name="C"))
    model.add(ph.forces.PointForce(bar["coupler"], (6.0, 0, 0)))
    return model.problem("minimal", t1=2.0, h=h)


def march(problem):
    run = ph.simulate(problem, "herk4", save_every=None)
    x, _, z = run.bodies["coupler"].position[-1]
    numbers = [x, z, run.joints["D"].angle[-1]]
    gap, spent = run.residuals["position"][-1], run.stats["wall_time_s"]
    return {"numbers": numbers, "steps": run.stats["steps"], "marching": spent, "loop open by": gap}
