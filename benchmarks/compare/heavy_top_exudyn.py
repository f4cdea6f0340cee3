"""A heavy top at 150 rad/s about its fixed point: Exudyn."""

import exudyn as exu
from exudyn.itemInterface import LoadForceVector, MarkerBodyPosition, NodeRigidBodyRotVecLG, ObjectRigidBody

FIRST = {"h": 0.02}


def prepare(h):
    mbs = exu.SystemContainer().AddSystem()
    node = mbs.AddNode(
        NodeRigidBodyRotVecLG(referenceCoordinates=[0.0] * 6, initialVelocities=[0, 0, 0, 0, 150.0, -4.61538])
    )
    # The node is the fixed point: so large a translational mass that it stays, and the inertia about that point.
    inertia = [15.234375, 0.46875, 15.234375, 0, 0, 0]
    body = mbs.AddObject(ObjectRigidBody(mass=1e20, inertia=inertia, nodeNumber=node))
    marker = mbs.AddMarker(MarkerBodyPosition(bodyNumber=body, localPosition=[0, 1.0, 0]))
    mbs.AddLoad(LoadForceVector(markerNumber=marker, loadVector=[0, 0, -15.0 * 9.81]))
    mbs.Assemble()
    settings = exu.SimulationSettings()
    settings.timeIntegration.numberOfSteps, settings.timeIntegration.endTime = round(1 / h), 1.0
    settings.timeIntegration.verboseMode = 0
    settings.solution.file.write = False
    settings.parallel.numberOfThreads = 1
    return mbs, body, settings


def march(prepared):
    mbs, body, settings = prepared
    mbs.SolveDynamic(settings, solverType=exu.DynamicSolverType.RK44)
    end = mbs.GetObjectOutputBody(body, exu.OutputVariableType.Position, [0, 1.0, 0])
    return {"numbers": end, "steps": settings.timeIntegration.numberOfSteps}
