"""Bodies of a compiled MuJoCo model; rigidly joined ones are lumped into one."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode.file_warning import ModelFileWarning
from polhode.importers import rotations
from polhode.importers._mujoco import is_disabled, mujoco
from polhode.jax_context import warn
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.joint_inertias import TreeAxis, free_inertias, spatial_inertia
from polhode.spaces.rotation_input import SINGLE_PRECISION


class Frame(NamedTuple):
    """Origin x (3,) and rotation R (3, 3) to the inertial frame."""

    x: np.ndarray
    R: np.ndarray

    def compose(self, inner: Frame) -> Frame:
        """A frame that is given in this one."""
        return Frame(self.x + self.R @ inner.x, self.R @ inner.R)

    def inverse(self) -> Frame:
        """This frame's parent, given in this frame."""
        return Frame(-self.R.T @ self.x, self.R.T)


ORIGIN = Frame(np.zeros(3), np.eye(3))


class Inertial(NamedTuple):
    """Mass, centre of mass (3,) in the frame of a body, and inertia about it (3, 3) along the axes of that frame."""

    mass: float
    centre: np.ndarray
    inertia: np.ndarray


MASSLESS = Inertial(0.0, np.zeros(3), np.zeros((3, 3)))


def from_principal_moments(mass: float, centre: np.ndarray, quaternion: np.ndarray, moments: np.ndarray) -> Inertial:
    """Inertial from principal moments and the quaternion of the principal axes."""
    R = rotations.from_quaternion(quaternion)
    return Inertial(float(mass), np.array(centre), R @ np.diag(moments) @ R.T)


@dataclasses.dataclass(frozen=True)
class Start:
    """A compiled model at its initial positions and velocities.

    - `compiled`: `mujoco.MjModel`; `data`: `mujoco.MjData`, with kinematics up to date.
    - `inertials`: replace those of the compiled model, by the numbers of bodies.
    """

    compiled: Any
    data: Any
    inertials: Mapping[int, Inertial]

    def name(self, kind: Any, number: int) -> str:
        """Name of an object of the model; its kind and number if it has none."""
        own_name = mujoco.mj_id2name(self.compiled, kind, number)
        return own_name or f"{kind.name.removeprefix('mjOBJ_').lower()}-{number}"

    def carrier(self, body: int) -> int:
        """The body with joints, or the world 0, that a body is rigidly joined to."""
        while body and not self.compiled.body_jntnum[body]:
            body = int(self.compiled.body_parentid[body])
        return body

    def inertial(self, body: int) -> Inertial:
        """Inertial of a single MuJoCo body."""
        m = self.compiled
        own = from_principal_moments(m.body_mass[body], m.body_ipos[body], m.body_iquat[body], m.body_inertia[body])
        return self.inertials.get(body, own)

    def pose(self, body: int) -> Frame:
        """Pose of the frame of a MuJoCo body, in the inertial frame."""
        return Frame(self.data.xpos[body].copy(), self.data.xmat[body].reshape(3, 3).copy())


@dataclasses.dataclass(frozen=True)
class Construction:
    """The bodies of a model under construction.

    - `model`: receives bodies and parts; `start`: the compiled model to import.
    - `carriers`: number of a MuJoCo body with joints → the body of the model; the world 0 → the ground.
    """

    model: Model
    start: Start
    carriers: dict[int, Body]

    def body(self, number: int) -> Body:
        """The body of the model that moves with a MuJoCo body."""
        return self.carriers[self.start.carrier(number)]

    def add_between(self, number: int, joints: Sequence[int]) -> Body:
        """A massless body carried by the first joints of a MuJoCo body."""
        m, data = self.start.compiled, self.start.data
        anchor, twist = data.xanchor[joints[-1]].copy(), np.zeros(6)
        parent = int(m.body_parentid[number])
        mujoco.mj_objectVelocity(m, data, mujoco.mjtObj.mjOBJ_XBODY, parent, twist, 0)
        omega, velocity = twist[:3], twist[3:] + np.cross(twist[:3], anchor - data.xpos[parent])
        # MuJoCo's screws refer to the centre of mass of the tree.
        arm = anchor - data.subtree_com[m.body_rootid[number]]
        for joint in joints:
            dofs = slice(m.jnt_dofadr[joint], m.jnt_dofadr[joint] + (6, 3, 1, 1)[m.jnt_type[joint]])
            spin, shift = np.split(data.qvel[dofs] @ data.cdof[dofs], 2)
            omega, velocity = omega + spin, velocity + shift + np.cross(spin, arm)
        name = self.start.name(mujoco.mjtObj.mjOBJ_JOINT, joints[-1])
        return self.model.add_body(
            name=self.free_name(f"behind {name}", "body"),
            mass=0.0,
            inertia=(0.0, 0.0, 0.0),
            position=anchor,
            velocity=velocity,
            angular_velocity=omega,
            check_inertia=False,
        )

    def free_name(self, name: str, kind: str) -> str:
        """A name for a part of the model: files may give one name to objects of different kinds."""
        return f"{name} ({kind})" if self.model.register.takes(name) else name

    def inertia_along(self, joint: int) -> float:
        """Force over acceleration of a hinge or slide at the start while all others are free, as MuJoCo has it."""
        return float(self._inertias[int(self.start.compiled.jnt_dofadr[joint])])

    @functools.cached_property
    def _inertias(self) -> np.ndarray:
        """Such an inertia for each degree of freedom of the file."""
        m, data = self.start.compiled, self.start.data
        # A reference point near the bodies keeps round-off small.
        middle = data.subtree_com[0]
        axes: list[TreeAxis] = []
        last: dict[int, int] = {0: -1}
        for number, body in sorted(self.carriers.items()):
            if number == 0:
                continue
            R, parent = np.asarray(body.R), last[self.start.carrier(int(m.body_parentid[number]))]
            own = spatial_inertia(float(body.mass), np.asarray(body.x) - middle, R @ np.asarray(body.inertia) @ R.T)
            first, count = int(m.body_dofadr[number]), int(m.body_dofnum[number])
            for dof in range(first, first + count):
                # MuJoCo's screws refer to the centre of mass of the tree.
                spin, shift = np.split(data.cdof[dof], 2)
                shift = shift + np.cross(spin, middle - data.subtree_com[m.body_rootid[number]])
                single = int(m.jnt_type[m.dof_jntid[dof]]) in (mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE)
                armature = float(m.dof_armature[dof]) if single else 0.0
                behind = own if dof == first + count - 1 else np.zeros((6, 6))
                axes.append(TreeAxis(parent, np.concatenate((spin, shift)), behind, armature))
                parent = dof
            last[number] = parent
        return free_inertias(axes)

    def local(self, number: int, point: np.ndarray) -> np.ndarray:
        """A point of the inertial frame at the start in the frame of the body that moves with a MuJoCo body."""
        body = self.body(number)
        return np.asarray(body.R).T @ (point - np.asarray(body.x))

    def direction(self, number: int, vector: np.ndarray) -> np.ndarray:
        """A direction of the inertial frame at the start in the frame of that body."""
        return np.asarray(self.body(number).R).T @ vector


def build_bodies(start: Start, check_inertia: bool) -> Construction:
    """One body for each MuJoCo body with joints, in its frame, with the mass of all that is fixed to it."""
    m = start.compiled
    gravity = m.opt.gravity * (not is_disabled(m, "gravity"))
    model = Model(gravity=gravity, units="SI")
    members: dict[int, list[int]] = {}
    for number in range(1, m.nbody):
        members.setdefault(start.carrier(number), []).append(number)
    members.pop(0, None)
    _check_moved(start, members)
    carriers = {0: model.ground}
    for carrier, parts in members.items():
        carriers[carrier] = _add_body(model, start, carrier, parts, check_inertia)
    return Construction(model, start, carriers)


def _add_body(model: Model, start: Start, carrier: int, parts: Sequence[int], check_inertia: bool) -> Body:
    data, frame = start.data, start.pose(carrier)
    mass, centre, inertia = _combined_inertia(start, carrier, parts)
    name = start.name(mujoco.mjtObj.mjOBJ_BODY, carrier)
    fixed_names = [start.name(mujoco.mjtObj.mjOBJ_BODY, part) for part in parts if part != carrier]
    _check(name, fixed_names, inertia, check_inertia)
    twist = np.zeros(6)
    mujoco.mj_objectVelocity(start.compiled, data, mujoco.mjtObj.mjOBJ_XBODY, carrier, twist, 0)
    return model.add_body(
        name=f"{name} (body)" if name == model.ground.name else name,
        mass=mass,
        inertia=inertia,
        position=frame.x + frame.R @ centre,
        rotation=frame.R,
        velocity=twist[3:] + np.cross(twist[:3], frame.R @ centre),
        angular_velocity=frame.R.T @ twist[:3],
        check_inertia=False,
    )


def _check_moved(start: Start, members: Mapping[int, Sequence[int]]) -> None:
    """Raises ValueError for a body with joints whose subtree has no mass and no inertia."""
    heavy: set[int] = set()
    # Parents come before children.
    for carrier in sorted(members, reverse=True):
        parts = [start.inertial(part) for part in members[carrier]]
        if carrier in heavy or any(part.mass > 0 or np.any(part.inertia) for part in parts):
            heavy |= {carrier, start.carrier(int(start.compiled.body_parentid[carrier]))}
    for carrier in members:
        if carrier not in heavy:
            raise ValueError(
                f"`{start.name(mujoco.mjtObj.mjOBJ_BODY, carrier)}` moves but has no mass and no inertia, alone and "
                "with all that it carries. Give it a mass and an inertia, or make its joint a fixed one."
            )


def _combined_inertia(start: Start, carrier: int, parts: Sequence[int]) -> Inertial:
    """Combined inertial of the parts of a body, in its frame."""
    frame = start.pose(carrier)
    inertials: list[Inertial] = []
    for part in parts:
        mass, centre, inertia = start.inertial(part)
        pose = start.pose(part)
        turn = frame.R.T @ pose.R
        inertials.append(Inertial(mass, frame.R.T @ (pose.x - frame.x) + turn @ centre, turn @ inertia @ turn.T))
    mass = sum(one.mass for one in inertials)
    centre = sum((one.mass * one.centre for one in inertials), start=np.zeros(3)) / (mass or 1.0)
    inertia = np.zeros((3, 3))
    for one in inertials:
        arm = one.centre - centre
        inertia += one.inertia + one.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return Inertial(mass, centre, (inertia + inertia.T) / 2)


def _check(name: str, fixed_names: Sequence[str], inertia: np.ndarray, strict: bool) -> None:
    """Warns of moments that no distribution of mass has; raises ValueError if `strict`."""
    moments = np.linalg.eigvalsh(inertia)
    if moments[0] >= -SINGLE_PRECISION * moments[2] and moments[2] <= (moments[0] + moments[1]) * (
        1 + SINGLE_PRECISION
    ):
        return
    whole = f"`{name}`" + (f" with {', '.join(fixed_names)}, which are fixed to it," if fixed_names else "")
    message = (
        f"{whole} has the principal moments of inertia {', '.join(f'{m:.4g}' for m in moments)}, which no distribution "
        "of mass has: none may be negative, nor exceed the sum of the others. "
    )
    if strict:
        raise ValueError(message + "Correct the file, or read it with check_inertia=False.")
    warn(message + "They are taken as they are.", ModelFileWarning)
