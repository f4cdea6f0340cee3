"""A four-bar linkage that falls and swings: Exudyn."""

import exudyn as exu
import numpy as np
from exudyn.utilities import RigidBodyInertia

FIRST = {"h": 0.02}
BARS = {"crank": ((0, 0), (0, 0.3)), "coupler": ((0, 0.3), (0.8, 0.5)), "rocker": ((0.8, 0), (0.8, 0.5))}


def prepare(h):
    mbs = exu.SystemContainer().AddSystem()
    ground, bar = mbs.CreateGround(), {}
    for name, (start, end) in BARS.items():
        start, end = np.insert(start, 1, 0.0), np.insert(end, 1, 0.0)
        length, along = np.linalg.norm(end - start), (end - start) / np.linalg.norm(end - start)
        bar[name] = mbs.CreateRigidBody(
            inertia=RigidBodyInertia(mass=2 * length, inertiaTensor=np.diag([1e-3, length**3 / 6, length**3 / 6])),
            nodeType=exu.NodeType.RotationRotationVector, referencePosition=(start + end) / 2, gravity=[0, 0, -9.81],
            referenceRotationMatrix=np.stack([along, (0, 1, 0), np.cross(along, (0, 1, 0))], axis=1),
        )  # fmt: skip
    y = [0, 1, 0]
    mbs.CreateRevoluteJoint(itemNumbers=[ground, bar["crank"]], position=[0, 0, 0], axis=y)
    mbs.CreateRevoluteJoint(itemNumbers=[bar["crank"], bar["coupler"]], position=[0, 0, 0.3], axis=y)
    mbs.CreateRevoluteJoint(itemNumbers=[ground, bar["rocker"]], position=[0.8, 0, 0], axis=y)
    # The motion is in a plane already: five constraints here would be redundant.
    mbs.CreateGenericJoint(
        itemNumbers=[bar["coupler"], bar["rocker"]], position=[0.8, 0, 0.5], constrainedAxes=[1, 0, 1, 0, 0, 0],
        useGlobalFrame=True, rotationMatrixAxes=np.eye(3),
    )  # fmt: skip
    mbs.CreateForce(itemNumber=bar["coupler"], loadVector=[6.0, 0, 0])
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = round(2 / h), 2.0
    settings.timeIntegration.generalizedAlpha.spectralRadius = 0.9
    settings.timeIntegration.verboseMode = 0
    settings.solution.file.write = False
    settings.parallel.numberOfThreads = 1
    return mbs, bar, settings


def march(prepared):
    mbs, bar, settings = prepared
    mbs.SolveDynamic(settings)

    def point(name, local):
        return mbs.GetObjectOutputBody(bar[name], exu.OutputVariableType.Position, local)

    x, z = point("coupler", [0, 0, 0])[[0, 2]]
    top = point("rocker", [0.25, 0, 0]) - point("rocker", [-0.25, 0, 0])
    gap = np.linalg.norm(point("coupler", [np.hypot(0.8, 0.2) / 2, 0, 0]) - point("rocker", [0.25, 0, 0]))
    steps = settings.timeIntegration.numberOfSteps
    return {"numbers": [x, z, np.arctan2(top[0], top[2])], "steps": steps, "loop open by": gap}
