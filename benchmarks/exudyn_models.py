"""The multibody benchmarks as Exudyn models, for `benchmarks/multibody.py`.

Rigid bodies on the rotation-vector Lie-group node, generalized-α with ρ∞ = 0.9 and the simplified kinematic relations
of the Lie-group method, one thread, no files.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, NamedTuple

import exudyn as exu
import numpy as np
from exudyn.utilities import NodeGenericODE2, ObjectKinematicTree, RigidBodyInertia

import polhode as ph


class PumaArm(NamedTuple):
    """The Puma with joint targets that are `jump` away from the start, and stay there.

    - `d`, `a`, `turns`: translations along z and x of Denavit–Hartenberg, and the rotations about x, as matrices.
    - `frames`: those of the links at the start, the ground first; `place` computes them from angles.
    """

    d: np.ndarray
    a: np.ndarray
    turns: list[np.ndarray]
    masses: np.ndarray
    centres: np.ndarray
    inertias: np.ndarray
    start: np.ndarray
    proportional: np.ndarray
    derivative: np.ndarray
    gravity: np.ndarray
    jump: float
    frames: list[Any]
    place: Callable[[np.ndarray], list[Any]]


LIE = exu.NodeType.RotationRotationVector


def solve(
    mbs: Any, h: float, steps: int, *, modified: bool, sparse: bool, repeats: int = 1, tolerance: float | None = None
) -> float:
    """Seconds per step, the best of several runs from the same start."""
    settings = exu.SimulationSettings()
    integration = settings.timeIntegration
    integration.numberOfSteps = steps
    integration.endTime = steps * h
    integration.verboseMode = 0
    integration.generalizedAlpha.spectralRadius = 0.9
    integration.generalizedAlpha.lieGroupSimplifiedKinematicRelations = True
    integration.generalizedAlpha.lieGroupAddTangentOperator = not sparse
    integration.newton.useModifiedNewton = modified
    if tolerance is not None:
        integration.newton.relativeTolerance = integration.newton.absoluteTolerance = tolerance
    settings.linearSolver.solverType = exu.LinearSolverType.EigenSparse if sparse else exu.LinearSolverType.EXUdense
    settings.solution.file.write = False
    settings.show.statistics = settings.show.computationTime = False
    settings.parallel.numberOfThreads = 1
    best = np.inf
    for _ in range(repeats):
        began = time.perf_counter()
        mbs.SolveDynamic(settings, solverType=exu.DynamicSolverType.GeneralizedAlpha)
        best = min(best, time.perf_counter() - began)
    return best / steps


def rigid_body(mbs: Any, problem: ph.Problem, name: str, inertia: Any = None) -> Any:
    """One body of a polhode problem with its initial state."""
    system, (q, v) = problem.system, problem.state0
    group, member = next((g, k) for options, g, k, *_ in system.coordinates.places if options == name)
    pose, twist = system.pose(q, name), system.twist(q, v, name)
    bodies = system.coordinates.bodies[group]
    tensor = bodies.inertia[member] if inertia is None else np.diag(inertia)
    return mbs.CreateRigidBody(
        inertia=RigidBodyInertia(mass=float(bodies.mass[member]), inertiaTensor=np.asarray(tensor)),
        nodeType=LIE,
        referencePosition=np.asarray(pose.x),
        referenceRotationMatrix=np.asarray(pose.R),
        initialVelocity=np.asarray(twist.u),
        initialAngularVelocity=np.asarray(pose.R @ twist.omega),
        gravity=np.asarray(system.mechanism.gravity),
    )


def heavy_top() -> tuple[Any, Any]:
    """A free body at its centre of mass with a spherical joint at the origin."""
    mbs = exu.SystemContainer().AddSystem()
    ground = mbs.CreateGround()
    top = mbs.CreateRigidBody(
        inertia=RigidBodyInertia(mass=15.0, inertiaTensor=np.diag([0.234375, 0.46875, 0.234375])),
        nodeType=LIE,
        referencePosition=[0, 1, 0],
        initialVelocity=[4.61538, 0, 0],
        initialAngularVelocity=[0, 150, -4.61538],
        gravity=[0, 0, -9.81],
    )
    mbs.CreateSphericalJoint(itemNumbers=[ground, top], position=[0, 0, 0])
    mbs.Assemble()
    return mbs, top


def slider_crank(problem: ph.Problem) -> tuple[Any, Any]:
    """Revolute, spherical, universal and prismatic joint."""
    mbs = exu.SystemContainer().AddSystem()
    ground, q = mbs.CreateGround(), problem.state0[0]
    # polhode's crank shares a hundredth of its inertia with the counter of its turns.
    crank = rigid_body(mbs, problem, "crank", problem.parameters["crank_inertia"])
    rod, slider = (rigid_body(mbs, problem, name) for name in ("rod", "slider"))
    pose = problem.system.pose(q, "crank")
    B, C = (np.asarray(x) for x in (pose.x + pose.R @ np.array([0, 0, 0.04]), problem.system.pose(q, "slider").x))
    across = np.asarray(problem.system.pose(q, "rod").R[:, 1])
    cross = np.stack(([1.0, 0, 0], across, np.cross([1.0, 0, 0], across)), axis=1)
    mbs.CreateRevoluteJoint(itemNumbers=[ground, crank], position=[0, 0.1, 0.12], axis=[1, 0, 0])
    mbs.CreateSphericalJoint(itemNumbers=[crank, rod], position=B)
    mbs.CreateGenericJoint(
        itemNumbers=[slider, rod], position=C, rotationMatrixAxes=cross, constrainedAxes=[1, 1, 1, 0, 0, 1]
    )
    mbs.CreatePrismaticJoint(itemNumbers=[ground, slider], position=C, axis=[1, 0, 0])
    mbs.Assemble()
    return mbs, slider


def body_chain(problem: ph.Problem) -> tuple[Any, Any]:
    """Rods with alternating hinges."""
    mbs = exu.SystemContainer().AddSystem()
    state = problem.state0
    hinges = np.asarray(problem.outputs["hinges"](0.0, state))
    before = mbs.CreateGround()
    for i in range(problem.parameters["n"]):
        rod = rigid_body(mbs, problem, f"rod-{i + 1}")
        axis = problem.system.pose(state[0], f"rod-{i + 1}").R[:, 2 if i % 2 == 0 else 1]
        mbs.CreateRevoluteJoint(itemNumbers=[before, rod], position=hinges[i], axis=np.asarray(axis))
        before = rod
    mbs.Assemble()
    return mbs, before


def puma(problem: ph.Problem, arm: PumaArm) -> tuple[Any, Any]:
    """The robot as bodies with hinges and torsional springs for the controllers."""
    mbs = exu.SystemContainer().AddSystem()
    before = mbs.CreateGround()
    for i in range(6):
        link = rigid_body(mbs, problem, f"link-{i + 1}", arm.inertias[i])
        where = {"itemNumbers": [before, link], "position": arm.frames[i].x, "axis": arm.frames[i].R[:, 2]}
        mbs.CreateRevoluteJoint(**where)
        gains = {"stiffness": arm.proportional[i], "damping": arm.derivative[i], "offset": arm.jump}
        mbs.CreateTorsionalSpringDamper(**where, **gains, useGlobalFrame=True)
        before = link
    mbs.Assemble()
    return mbs, before


def puma_tree(arm: PumaArm) -> tuple[Any, Any]:
    """The robot as kinematic tree; the links are described in the frames of their joints."""
    mbs = exu.SystemContainer().AddSystem()
    start = list(arm.start)
    # The coordinates start from zero so that controllers see them whole.
    node = mbs.AddNode(
        NodeGenericODE2(
            referenceCoordinates=[0.0] * 6,
            initialCoordinates=start,
            initialCoordinates_t=[0.0] * 6,
            numberOfODE2Coordinates=6,
        )
    )
    offsets = [np.array([arm.a[i], 0.0, arm.d[i]]) for i in range(6)]
    turns = [np.asarray(arm.turns[i]) for i in range(6)]
    mbs.AddObject(
        ObjectKinematicTree(
            nodeNumber=node,
            gravity=np.asarray(arm.gravity),
            jointTypes=[exu.JointType.RevoluteZ] * 6,
            linkParents=np.arange(-1, 5),
            jointTransformations=exu.Matrix3DList([np.eye(3), *turns[:5]]),
            jointOffsets=exu.Vector3DList([np.zeros(3), *offsets[:5]]),
            linkInertiasCOM=exu.Matrix3DList([R @ np.diag(J) @ R.T for R, J in zip(turns, arm.inertias, strict=True)]),
            linkCOMs=exu.Vector3DList([x + R @ c for x, R, c in zip(offsets, turns, arm.centres, strict=True)]),
            linkMasses=np.asarray(arm.masses),
            jointPositionOffsetVector=np.asarray(start) + arm.jump,
            jointVelocityOffsetVector=np.zeros(6),
            jointPControlVector=np.asarray(arm.proportional),
            jointDControlVector=np.asarray(arm.derivative),
        )
    )
    mbs.Assemble()

    def last_centre(mbs: Any) -> np.ndarray:
        angles = np.asarray(mbs.GetNodeOutput(node, exu.OutputVariableType.Coordinates))
        frame = arm.place(angles)[-1]
        return np.asarray(frame.x + frame.R @ arm.centres[-1])

    return mbs, last_centre


def position(mbs: Any, body: Any) -> np.ndarray:
    """Where the reference point of a body is now; or what a function of the model says."""
    if callable(body):
        return body(mbs)
    return np.asarray(mbs.GetObjectOutputBody(body, exu.OutputVariableType.Position, [0.0, 0.0, 0.0]))
