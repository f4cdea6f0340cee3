"""A horizontal rod that is clamped at one end and let go under its own weight: PyElastica."""

import elastica as ea
import numpy as np

# Edges and steps are halved together.
FIRST = {"h": 8e-4}


class Simulator(ea.BaseSystemCollection, ea.Constraints, ea.Forcing):
    """Base classes of the simulator for this run."""


def prepare(h):
    edges = round(4e-3 / h)
    # Rotations are kept on edges: the clamp holds that of the first one, in its middle.
    edge = 1.0 / (edges - 0.5)
    rod = ea.CosseratRod.straight_rod(
        edges, np.array([-edge / 2, 0, 0]), np.array([1.0, 0, 0]), np.array([0.0, 0, 1.0]), edges * edge, 0.02,
        1000.0, youngs_modulus=1e7, shear_modulus=4e6,
    )  # fmt: skip
    simulator = Simulator()
    simulator.append(rod)
    clamp = simulator.constrain(rod)
    clamp.using(ea.FixedConstraint, constrained_position_idx=(0, 1), constrained_director_idx=(0,))
    simulator.add_forcing_to(rod).using(ea.GravityForces, acc_gravity=np.array([0, 0, -9.81]))
    simulator.finalize()
    return simulator, rod, np.float64(h), edges


def march(prepared):
    simulator, rod, h, edges = prepared
    stepper, t, steps = ea.PositionVerlet(), np.float64(0.0), round(0.5 / h)
    for _ in range(steps):
        t = stepper.step(simulator, t, h)
    return {"numbers": rod.position_collection[[0, 2], -1], "steps": steps, "edges": edges}
