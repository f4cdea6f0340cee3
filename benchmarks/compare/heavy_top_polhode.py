"""A heavy top at 150 rad/s about its fixed point: polhode."""

import numpy as np

import polhode as ph

FIRST = {"rtol": 1e-5}


def prepare(rtol):
    return ph.problems.get("heavy-top", formulation="S3"), rtol


def march(prepared):
    top, rtol = prepared
    run = ph.simulate(top, "rkmk54", rtol=rtol, save_every=None)
    norm = np.abs(np.sum(run.state[0][-1] ** 2) - 1)
    steps = run.stats["steps"] + run.stats["rejected"]
    numbers, spent = run.outputs["centre_of_mass"][-1], run.stats["wall_time_s"]
    return {"numbers": numbers, "steps": steps, "marching": spent, "quaternion's norm off by": norm}
