"""Bodies of a compiled MuJoCo model, with everything that is rigidly joined lumped together."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from polhode._ambient import warn
from polhode.importers import ModelFileWarning
from polhode.importers._mujoco import disabled, mujoco
from polhode.model.model import Model
from polhode.multibody.bodies import ROUNDED, Body


class Frame(NamedTuple):
    """Origin x (3,) and rotation R (3, 3) to the inertial frame."""

    x: np.ndarray
    R: np.ndarray


class Inertial(NamedTuple):
    """Mass, centre of mass (3,) in the frame of a body, and inertia about it (3, 3) along the axes of that frame."""

    mass: float
    centre: np.ndarray
    inertia: np.ndarray


NOTHING = Inertial(0.0, np.zeros(3), np.zeros((3, 3)))


def oriented(mass: float, centre: np.ndarray, quaternion: np.ndarray, moments: np.ndarray) -> Inertial:
    """From moments about axes that a quaternion turns."""
    R = np.zeros(9)
    mujoco.mju_quat2Mat(R, quaternion)
    R = R.reshape(3, 3)
    return Inertial(float(mass), np.array(centre), R @ np.diag(moments) @ R.T)


@dataclasses.dataclass(frozen=True)
class Start:
    """A compiled model at its initial positions and velocities.

    - `compiled`: `mujoco.MjModel`; `data`: `mujoco.MjData`, with kinematics up to date.
    - `inertials`: in place of those of the compiled model, by the numbers of bodies.
    """

    compiled: Any
    data: Any
    inertials: Mapping[int, Inertial]

    def name(self, kind: Any, number: int) -> str:
        """Name of an object of the model; its kind and number if it has none."""
        found = mujoco.mj_id2name(self.compiled, kind, number)
        return found or f"{kind.name.removeprefix('mjOBJ_').lower()}-{number}"

    def carrier(self, body: int) -> int:
        """The body with joints, or the world 0, that a body is rigidly joined to."""
        while body and not self.compiled.body_jntnum[body]:
            body = int(self.compiled.body_parentid[body])
        return body

    def inertial(self, body: int) -> Inertial:
        """Of a MuJoCo body by itself."""
        m = self.compiled
        own = oriented(m.body_mass[body], m.body_ipos[body], m.body_iquat[body], m.body_inertia[body])
        return self.inertials.get(body, own)

    def pose(self, body: int) -> Frame:
        """Of the frame of a MuJoCo body, in the inertial frame."""
        return Frame(self.data.xpos[body].copy(), self.data.xmat[body].reshape(3, 3).copy())


@dataclasses.dataclass(frozen=True)
class Construction:
    """The bodies of a model under construction.

    - `model`: receives bodies and parts; `start`: what is imported.
    - `carriers`: number of a MuJoCo body with joints → the body of the model; the world 0 → the ground.
    """

    model: Model
    start: Start
    carriers: dict[int, Body]

    def body(self, number: int) -> Body:
        """The body of the model that moves with a MuJoCo body."""
        return self.carriers[self.start.carrier(number)]

    def add_between(self, number: int, joints: Sequence[int]) -> Body:
        """A body without mass that the first joints of a MuJoCo body carry."""
        m, data = self.start.compiled, self.start.data
        anchor, twist = data.xanchor[joints[-1]].copy(), np.zeros(6)
        parent = int(m.body_parentid[number])
        mujoco.mj_objectVelocity(m, data, mujoco.mjtObj.mjOBJ_XBODY, parent, twist, 0)
        omega, velocity = twist[:3], twist[3:] + np.cross(twist[:3], anchor - data.xpos[parent])
        for joint in joints:
            rate = data.qvel[m.jnt_dofadr[joint]] * data.xaxis[joint]
            if m.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE:
                omega = omega + rate
                velocity = velocity + np.cross(rate, anchor - data.xanchor[joint])
            else:
                velocity = velocity + rate
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
        used = {body.name for body in self.model.bodies} | {taken for taken, _ in self.model.parts} | {"ground"}
        return f"{name} ({kind})" if name in used else name

    def inertia_along(self, joint: int) -> float:
        """Of all that a hinge or slide carries, along it at the start."""
        m, data = self.start.compiled, self.start.data
        axis, anchor = data.xaxis[joint], data.xanchor[joint]
        found = float(m.dof_armature[m.jnt_dofadr[joint]])
        for number, body in self.carriers.items():
            if not self._is_behind(number, int(m.jnt_bodyid[joint])):
                continue
            found += float(body.mass) * self._lever(joint, axis, np.asarray(body.x) - anchor)
            if m.jnt_type[joint] == mujoco.mjtJoint.mjJNT_HINGE:
                turned = axis @ np.asarray(body.R)
                found += float(turned @ np.asarray(body.inertia) @ turned)
        return found

    def _lever(self, joint: int, axis: np.ndarray, arm: np.ndarray) -> float:
        """Square of how far a point moves with a joint."""
        if self.start.compiled.jnt_type[joint] != mujoco.mjtJoint.mjJNT_HINGE:
            return 1.0
        across = np.cross(axis, arm)
        return float(across @ across)

    def _is_behind(self, number: int, body: int) -> bool:
        while number and number != body:
            number = int(self.start.compiled.body_parentid[number])
        return bool(number)

    def local(self, number: int, point: np.ndarray) -> np.ndarray:
        """A point of the inertial frame at the start in the frame of the body that moves with a MuJoCo body."""
        body = self.body(number)
        return np.asarray(body.R).T @ (point - np.asarray(body.x))

    def direction(self, number: int, vector: np.ndarray) -> np.ndarray:
        """A direction of the inertial frame at the start, likewise."""
        return np.asarray(self.body(number).R).T @ vector


def lumped(start: Start, check_inertia: bool) -> Construction:
    """Bodies with the mass of all that is rigidly joined to them, in the frames of the MuJoCo bodies with joints."""
    compiled = start.compiled
    gravity = compiled.opt.gravity * (not disabled(compiled, "gravity"))
    model = Model(gravity=gravity)
    members: dict[int, list[int]] = {}
    for number in range(1, compiled.nbody):
        members.setdefault(start.carrier(number), []).append(number)
    members.pop(0, None)
    _check_moved(start, members)
    carriers = {0: model.ground}
    for carrier, parts in members.items():
        carriers[carrier] = _add_body(model, start, carrier, parts, check_inertia)
    return Construction(model, start, carriers)


def _add_body(model: Model, start: Start, carrier: int, parts: Sequence[int], check_inertia: bool) -> Body:
    data, frame = start.data, start.pose(carrier)
    mass, centre, inertia = _together(start, carrier, parts)
    name = start.name(mujoco.mjtObj.mjOBJ_BODY, carrier)
    fixed = [start.name(mujoco.mjtObj.mjOBJ_BODY, part) for part in parts if part != carrier]
    _check(name, fixed, inertia, check_inertia)
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
    """Raises ValueError for a body with joints that move nothing at all."""
    heavy: set[int] = set()
    for carrier, parts in members.items():
        if any(start.inertial(part).mass > 0 or np.any(start.inertial(part).inertia) for part in parts):
            while carrier:
                heavy.add(carrier)
                carrier = start.carrier(int(start.compiled.body_parentid[carrier]))
    for carrier in members:
        if carrier not in heavy:
            raise ValueError(
                f"`{start.name(mujoco.mjtObj.mjOBJ_BODY, carrier)}` moves but has no mass and no inertia, alone and "
                "with all that it carries. Give it a mass and an inertia, or make its joint a fixed one."
            )


def _together(start: Start, carrier: int, parts: Sequence[int]) -> Inertial:
    """Of all that is rigidly joined to a body, in its frame."""
    frame = start.pose(carrier)
    found: list[Inertial] = []
    for part in parts:
        mass, centre, inertia = start.inertial(part)
        pose = start.pose(part)
        turn = frame.R.T @ pose.R
        found.append(Inertial(mass, frame.R.T @ (pose.x - frame.x) + turn @ centre, turn @ inertia @ turn.T))
    mass = sum(one.mass for one in found)
    centre = sum((one.mass * one.centre for one in found), start=np.zeros(3)) / (mass or 1.0)
    inertia = np.zeros((3, 3))
    for one in found:
        arm = one.centre - centre
        inertia += one.inertia + one.mass * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    return Inertial(mass, centre, (inertia + inertia.T) / 2)


def _check(name: str, fixed: Sequence[str], inertia: np.ndarray, strict: bool) -> None:
    """Says which moments no distribution of mass has; raises ValueError if `strict`."""
    moments = np.linalg.eigvalsh(inertia)
    if moments[0] >= -ROUNDED * moments[2] and moments[2] <= (moments[0] + moments[1]) * (1 + ROUNDED):
        return
    whole = f"`{name}`" + (f" with {', '.join(fixed)}, which are fixed to it," if fixed else "")
    said = (
        f"{whole} has the principal moments of inertia {', '.join(f'{m:.4g}' for m in moments)}, which no distribution "
        "of mass has: none may be negative, nor exceed the sum of the others. "
    )
    if strict:
        raise ValueError(said + "Correct the file, or read it with check_inertia=False.")
    warn(said + "They are taken as they are.", ModelFileWarning)
