"""Bodies of a compiled MuJoCo model, with everything that is rigidly joined lumped together."""

from __future__ import annotations

import dataclasses
from typing import Any, NamedTuple

import numpy as np

from polhode.importers._mujoco import mujoco
from polhode.model.model import Model
from polhode.multibody.bodies import Body


class Frame(NamedTuple):
    """Origin x (3,) and rotation R (3, 3) to the inertial frame."""

    x: np.ndarray
    R: np.ndarray


@dataclasses.dataclass(frozen=True)
class Start:
    """A compiled model at its initial positions and velocities.

    - `compiled`: `mujoco.MjModel`; `data`: `mujoco.MjData`, with kinematics up to date.
    """

    compiled: Any
    data: Any

    def name(self, kind: Any, number: int) -> str:
        """Name of an object of the model; its kind and number if it has none."""
        found = mujoco.mj_id2name(self.compiled, kind, number)
        return found or f"{kind.name.removeprefix('mjOBJ_').lower()}-{number}"

    def carrier(self, body: int) -> int:
        """The body with joints, or the world 0, that a body is rigidly joined to."""
        while body and not self.compiled.body_jntnum[body]:
            body = int(self.compiled.body_parentid[body])
        return body

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

    def free_name(self, name: str, kind: str) -> str:
        """A name for a part of the model: files may give one name to objects of different kinds."""
        used = {body.name for body in self.model.bodies} | {taken for taken, _ in self.model.parts} | {"ground"}
        return f"{name} ({kind})" if name in used else name

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
    gravity = compiled.opt.gravity * (not compiled.opt.disableflags & mujoco.mjtDisableBit.mjDSBL_GRAVITY)
    model = Model(gravity=gravity)
    members: dict[int, list[int]] = {}
    for number in range(1, compiled.nbody):
        members.setdefault(start.carrier(number), []).append(number)
    members.pop(0, None)
    if not members:
        raise ValueError("The file has no moving bodies: nothing is joined by anything but fixed joints.")
    carriers = {0: model.ground}
    for carrier, parts in members.items():
        carriers[carrier] = _add_body(model, start, carrier, parts, check_inertia)
    return Construction(model, start, carriers)


def _add_body(model: Model, start: Start, carrier: int, parts: list[int], check_inertia: bool) -> Body:
    compiled, data = start.compiled, start.data
    mass = compiled.body_mass[parts]
    centre = mass @ data.xipos[parts] / np.sum(mass)
    R = start.pose(carrier).R
    inertia = np.zeros((3, 3))
    for m, part in zip(mass, parts, strict=True):
        principal = data.ximat[part].reshape(3, 3)
        arm = data.xipos[part] - centre
        inertia += principal @ np.diag(compiled.body_inertia[part]) @ principal.T
        inertia += m * (arm @ arm * np.eye(3) - np.outer(arm, arm))
    twist = np.zeros(6)
    mujoco.mj_objectVelocity(compiled, data, mujoco.mjtObj.mjOBJ_XBODY, carrier, twist, 0)
    in_body = R.T @ inertia @ R
    return model.add_body(
        name=start.name(mujoco.mjtObj.mjOBJ_BODY, carrier),
        mass=np.sum(mass),
        inertia=(in_body + in_body.T) / 2,
        position=centre,
        rotation=R,
        velocity=twist[3:] + np.cross(twist[:3], centre - data.xpos[carrier]),
        angular_velocity=R.T @ twist[:3],
        check_inertia=check_inertia,
    )
