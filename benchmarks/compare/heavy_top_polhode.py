"""A heavy top at 150 rad/s about its fixed point: polhode."""

import json

import numpy as np

import polhode as ph

top = ph.problems.get("heavy-top", formulation="S3")
run = ph.simulate(top, "rkmk54", rtol=1e-9, save_at=np.linspace(0, 1, 101))
norm = np.abs(np.sum(run.state[0] ** 2, axis=1) - 1).max()
print(json.dumps({"numbers": run.outputs["centre_of_mass"][-1].tolist(), "quaternion's norm off by": float(norm)}))
