"""The rods of `benchmarks/rods.py` in PyElastica and Exudyn.

PyElastica keeps rotations on edges and places on nodes, and shortens the section of a stretched edge; its stiffness,
mass and inertia are set here to the numbers of polhode's section. Exudyn's `ObjectBeamGeometricallyExact` has the same
unknowns and the same interpolation on SE(3) as polhode, with a mass matrix that is not lumped.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import elastica as ea
import exudyn as exu
import exudyn_models as peer
import numpy as np
from exudyn.utilities import (
    Force,
    GenericJoint,
    LoadMassProportional,
    MarkerBodyMass,
    MarkerBodyRigid,
    MarkerNodeRigid,
    NodeRigidBodyEP,
    NodeRigidBodyRotVecLG,
    ObjectBeamGeometricallyExact,
    ObjectGround,
    RotationMatrix2EulerParameters,
    RotationMatrix2RotationVector,
    Torque,
)


class Section(NamedTuple):
    """Per length: (EI₁, EI₂, GJ), (GA₁, GA₂, EA), mass and inertia about the three axes of the section."""

    bending: np.ndarray
    stretching: np.ndarray
    mass: float
    inertia: np.ndarray


class Cantilever(NamedTuple):
    """A horizontal round rod that is clamped at one end and let go under its own weight.

    `sag` is what the tip of the straight rod would sink by at rest, over its length, in the linear theory.
    """

    length: float = 1.0
    radius: float = 1e-3
    youngs_modulus: float = 1e7
    shear_modulus: float = 1e7 / 2.6
    density: float = 1000.0
    sag: float = 0.2

    @property
    def section(self) -> Section:
        area, second = np.pi * self.radius**2, 0.25 * np.pi * self.radius**4
        E, G, rho = self.youngs_modulus, self.shear_modulus, self.density
        shear = 27 / 28 * G * area
        bending = np.array([E * second, E * second, 2 * G * second])
        inertia = rho * second * np.array([1.0, 1.0, 2.0])
        return Section(bending, np.array([shear, shear, E * area]), rho * area, inertia)

    @property
    def gravity(self) -> np.ndarray:
        section = self.section
        return np.array([0.0, 0.0, -self.sag * 8 * section.bending[0] / (section.mass * self.length**3)])

    @property
    def period(self) -> float:
        """Of the first bending mode of small motions."""
        section = self.section
        return 2 * np.pi / (1.8751040687 / self.length) ** 2 * float(np.sqrt(section.mass / section.bending[0]))


SPAGHETTI = Section(np.full(3, 500.0), np.full(3, 1e4), 1.0, np.full(3, 10.0))
"""Of polhode's problem "flying-spaghetti", with its first node, direction and length:"""
START, DIRECTION, LENGTH = np.array([6.0, 0.0, 0.0]), np.array([-0.6, 0.8, 0.0]), 10.0


def tent(t: float) -> float:
    return max(200.0 * (1.0 - abs(t - 2.5) / 2.5), 0.0)


# --- PyElastica -----------------------------------------------------------------------------------------------------


class _Simulator(ea.BaseSystemCollection, ea.Constraints, ea.Forcing):
    pass


class _Push(ea.NoForces):
    """The load of the flying spaghetti: the force on node 0, the moment on edge 0."""

    def apply_forces(self, system: Any, time: Any = 0.0) -> None:
        system.external_forces[0, 0] += 0.1 * tent(time)

    def apply_torques(self, system: Any, time: Any = 0.0) -> None:
        g = tent(time)
        system.external_torques[:, 0] += system.director_collection[:, :, 0] @ np.array([0.0, -0.5 * g, -g])


def _elastica_rod(n: int, start: np.ndarray, direction: np.ndarray, length: float, section: Section) -> Any:
    """A straight rod; the arrays that its radius, density and moduli would set are overwritten."""
    normal = np.cross(direction, [0.0, 0.0, 1.0])
    rod = ea.CosseratRod.straight_rod(
        n, start, direction, normal, length, np.sqrt(section.mass / np.pi), 1.0, youngs_modulus=1.0, shear_modulus=1.0
    )
    ds, diagonal = length / n, lambda values: np.diag(values)[:, :, None]
    rod.shear_matrix[:] = diagonal(section.stretching)
    rod.bend_matrix[:] = diagonal(section.bending)
    rod.mass_second_moment_of_inertia[:] = diagonal(ds * section.inertia)
    rod.inv_mass_second_moment_of_inertia[:] = diagonal(1.0 / (ds * section.inertia))
    return rod


def elastica_spaghetti(n: int) -> tuple[Any, Any]:
    rod, simulator = _elastica_rod(n, START, DIRECTION, LENGTH, SPAGHETTI), _Simulator()
    simulator.append(rod)
    simulator.add_forcing_to(rod).using(_Push)
    simulator.finalize()
    return simulator, rod


class _Turn(ea.NoForces):
    """A constant moment about e₂ on the last edge."""

    def __init__(self, moment: float):
        super().__init__()
        self.moment = np.array([0.0, moment, 0.0])

    def apply_torques(self, system: Any, time: Any = 0.0) -> None:
        system.external_torques[:, -1] += system.director_collection[:, :, -1] @ self.moment


def elastica_roll_up(n: int) -> tuple[Any, Any]:
    """The rod of polhode's problem "roll-up" with shear, without damping; the clamp halves the first of n edges."""
    ds, along = LENGTH / (n - 0.5), np.array([1.0, 0.0, 0.0])
    rod, simulator = _elastica_rod(n, -0.5 * ds * along, along, n * ds, SPAGHETTI), _Simulator()
    simulator.append(rod)
    simulator.constrain(rod).using(ea.FixedConstraint, constrained_position_idx=(0, 1), constrained_director_idx=(0,))
    simulator.add_forcing_to(rod).using(_Turn, moment=2 * np.pi * SPAGHETTI.bending[0] / LENGTH)
    simulator.finalize()
    return simulator, rod


def elastica_cantilever(case: Cantilever, n: int) -> tuple[Any, Any]:
    """n edges, of which the clamp halves the first: PyElastica holds the rotation of an edge, in its middle."""
    ds, along = case.length / (n - 0.5), np.array([1.0, 0.0, 0.0])
    rod, simulator = _elastica_rod(n, -0.5 * ds * along, along, n * ds, case.section), _Simulator()
    simulator.append(rod)
    fixed = {"constrained_position_idx": (0, 1), "constrained_director_idx": (0,)}
    simulator.constrain(rod).using(ea.FixedConstraint, **fixed)
    simulator.add_forcing_to(rod).using(ea.GravityForces, acc_gravity=case.gravity)
    simulator.finalize()
    return simulator, rod


def elastica_run(make: Callable[[], tuple[Any, Any]], t1: float, steps: int) -> tuple[float, float, np.ndarray]:
    """CPU seconds, seconds, and places of the nodes at t1, with position Verlet."""
    simulator, rod = make()
    stepper, t, h = ea.PositionVerlet(), np.float64(0.0), np.float64(t1 / steps)
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(steps):
        t = stepper.step(simulator, t, h)
    return time.process_time() - cpu, time.perf_counter() - wall, rod.position_collection.T.copy()


# --- Exudyn ---------------------------------------------------------------------------------------------------------


class ExudynRod(NamedTuple):
    """A system with a rod and the numbers of its nodes and edges."""

    mbs: Any
    nodes: list[Any]
    edges: list[Any]

    @property
    def points(self) -> np.ndarray:
        return np.array([self.mbs.GetNodeOutput(k, exu.OutputVariableType.Position) for k in self.nodes])


def _exudyn_rod(n: int, start: np.ndarray, direction: np.ndarray, length: float, section: Section, lie: bool) -> Any:
    """Straight; its first axis leads along the rod, the sections' axes 1 and 2 become 2 and 3."""
    mbs = exu.SystemContainer().AddSystem()
    swap = [2, 0, 1]
    data = exu.BeamSection()
    data.stiffnessMatrix = np.diag([*section.stretching[swap], *section.bending[swap]])
    data.inertia = np.diag(section.inertia[swap])
    data.massPerLength = section.mass
    R = np.column_stack([direction, np.cross([0.0, 0.0, 1.0], direction), [0.0, 0.0, 1.0]])
    make, turn = (
        (NodeRigidBodyRotVecLG, RotationMatrix2RotationVector)
        if lie
        else (NodeRigidBodyEP, RotationMatrix2EulerParameters)
    )
    places = start + np.linspace(0.0, length, n + 1)[:, None] * direction
    nodes = [mbs.AddNode(make(referenceCoordinates=[*x, *turn(R)])) for x in places]
    edges = [
        mbs.AddObject(ObjectBeamGeometricallyExact(nodeNumbers=list(ends), length=length / n, sectionData=data))
        for ends in itertools.pairwise(nodes)
    ]
    return ExudynRod(mbs, nodes, edges)


def exudyn_spaghetti(n: int) -> ExudynRod:
    rod = _exudyn_rod(n, START, DIRECTION, LENGTH, SPAGHETTI, lie=True)
    marker = rod.mbs.AddMarker(MarkerNodeRigid(nodeNumber=rod.nodes[0]))
    for load, axis in ((Force, np.array([0.1, 0.0, 0.0])), (Torque, np.array([0.0, -0.5, -1.0]))):
        function = lambda mbs, t, loadVector, axis=axis: (tent(t) * axis).tolist()  # noqa: E731
        rod.mbs.AddLoad(load(markerNumber=marker, loadVector=[0, 0, 0], loadVectorUserFunction=function))
    rod.mbs.Assemble()
    return rod


def exudyn_cantilever(case: Cantilever, n: int) -> ExudynRod:
    """On Euler parameters: with the Lie-group node under this clamp, runs do not come to an end."""
    rod = _exudyn_rod(n, np.zeros(3), np.array([1.0, 0.0, 0.0]), case.length, case.section, lie=False)
    mbs = rod.mbs
    ground = mbs.AddMarker(MarkerBodyRigid(bodyNumber=mbs.AddObject(ObjectGround())))
    mbs.AddObject(GenericJoint(markerNumbers=[ground, mbs.AddMarker(MarkerNodeRigid(nodeNumber=rod.nodes[0]))]))
    for edge in rod.edges:
        marker = mbs.AddMarker(MarkerBodyMass(bodyNumber=edge))
        mbs.AddLoad(LoadMassProportional(markerNumber=marker, loadVector=case.gravity.tolist()))
    mbs.Assemble()
    return rod


def exudyn_run(make: Callable[[], ExudynRod], t1: float, steps: int, *, sparse: bool) -> tuple[float, float, Any]:
    """CPU seconds, seconds, and places of the nodes at t1, with generalized-α and modified Newton."""
    rod = make()
    cpu = time.process_time()
    wall = peer.solve(rod.mbs, t1 / steps, steps, modified=True, sparse=sparse) * steps
    return time.process_time() - cpu, wall, rod.points
