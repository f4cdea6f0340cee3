"""A horizontal rod that is clamped at one end and let go under its own weight: PyElastica."""

import json

import elastica as ea
import numpy as np


class Simulator(ea.BaseSystemCollection, ea.Constraints, ea.Forcing):
    """What this run needs."""


n = 40
# Rotations are kept on edges: the clamp holds that of the first one, in its middle.
edge = 1.0 / (n - 0.5)
rod = ea.CosseratRod.straight_rod(
    n, np.array([-edge / 2, 0, 0]), np.array([1.0, 0, 0]), np.array([0.0, 0, 1.0]), n * edge, 0.02, 1000.0,
    youngs_modulus=1e7, shear_modulus=4e6,
)  # fmt: skip
simulator = Simulator()
simulator.append(rod)
simulator.constrain(rod).using(ea.FixedConstraint, constrained_position_idx=(0, 1), constrained_director_idx=(0,))
simulator.add_forcing_to(rod).using(ea.GravityForces, acc_gravity=np.array([0, 0, -9.81]))
simulator.finalize()
stepper, t, h = ea.PositionVerlet(), np.float64(0.0), np.float64(1e-4)
for _ in range(5000):
    t = stepper.step(simulator, t, h)
print(json.dumps({"numbers": rod.position_collection[[0, 2], -1].tolist()}))
