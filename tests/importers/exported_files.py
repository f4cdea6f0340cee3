"""Models beside what MuJoCo and `load_model` make of their MJCF: the same state in all, and accelerations of bodies."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import mujoco
import numpy as np
from against_mujoco import bodies_accelerations, largest_difference, smooth

import polhode as ph


class Case(NamedTuple):
    """An assembled model at a random state, with MuJoCo's model of its file in the same one."""

    system: Any
    state0: Any
    compiled: Any
    data: Any
    text: str

    def off_mujoco(self) -> float:
        """Largest difference of accelerations from MuJoCo's, relative to the largest one."""
        return largest_difference(self, self.compiled, self.data)

    def off_again(self) -> float:
        """Likewise from those of the file as `load_model` reads it."""
        again = read_again(self.text, self.compiled, self.data)
        system, (q, v) = again.model.assemble("minimal", repair=True, redundant="minimum-norm")
        found, wanted = bodies_accelerations(system, q, v), bodies_accelerations(self.system, *self.state0)
        off = []
        for k, name in enumerate(self.system.names):
            if name == "rotor coordinate":
                continue
            carrier = again.links[name].name
            # Bodies that are fixed to each other are one, with another centre of mass.
            arm = np.asarray(self.system.pose(self.state0[0], name).x - system.pose(q, carrier).x)
            omega = np.asarray(system.pose(q, carrier).R @ system.twist(q, v, carrier).omega)
            angular, linear = np.split(found[system.names.index(carrier)], 2)
            linear = linear + np.cross(angular, arm) + np.cross(omega, np.cross(omega, arm))
            off.append(np.concatenate((angular, linear)) - wanted[k])
        return float(np.max(np.abs(off)) / np.max(np.abs(wanted)))


def at_random(model: Any, text: str, seed: int = 0) -> Case:
    """A tree in joint coordinates at random ones near its start, and its file likewise."""
    system, (q0, v0) = model.assemble("minimal")
    random = np.random.default_rng(seed)
    q = system.configuration.move(q0, jnp.asarray(random.uniform(-0.5, 0.5, len(v0))))
    return _beside(text, system, q, jnp.asarray(random.uniform(-1, 1, len(v0))))


def at_start(model: Any, text: str) -> Case:
    """A model, with loops or without, and its file where it starts."""
    system, (q, v) = model.assemble("minimal", redundant="minimum-norm")
    return _beside(text, system, q, v)


def _beside(text: str, system: Any, q: Any, v: Any) -> Case:
    compiled = smooth(mujoco.MjModel.from_xml_string(text))
    return Case(system, (q, v), compiled, state_at(compiled, system, q, v), text)


def state_at(compiled: Any, system: Any, q: Any, v: Any) -> Any:
    """MuJoCo's data where bodies are where the system has those of their names, and move as these do."""
    data = mujoco.MjData(compiled)
    if compiled.nkey:
        mujoco.mj_resetDataKeyframe(compiled, data, 0)
    motion = system.motion(q, v)
    x, R, omega, u = (np.asarray(a) for a in (*motion.poses, *motion.twists))
    rows = {}
    for body in range(1, compiled.nbody):
        # Both halves of a body that a loop cuts are where the body is.
        name = mujoco.mj_id2name(compiled, mujoco.mjtObj.mjOBJ_BODY, body).removesuffix(" (cut)")
        rows[body] = system.names.index(name)
    gap = np.ones(1)
    for _ in range(12):
        J, gap = _jacobian(compiled, data), []
        for body, k in rows.items():
            turn = R[k] @ data.xmat[body].reshape(3, 3).T
            gap += [
                x[k] - data.xipos[body],
                [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]],
            ]
        gap = np.concatenate(gap) * np.tile([1, 1, 1, 0.5, 0.5, 0.5], len(rows))
        mujoco.mj_integratePos(compiled, data.qpos, np.linalg.lstsq(J, gap, rcond=None)[0], 1.0)
    assert np.max(np.abs(gap)) < 1e-12
    J = _jacobian(compiled, data)
    wanted = np.concatenate([np.concatenate((u[k], R[k] @ omega[k])) for k in rows.values()])
    data.qvel[:] = np.linalg.lstsq(J, wanted, rcond=None)[0]
    np.testing.assert_allclose(J @ data.qvel, wanted, atol=1e-11)
    mujoco.mj_forward(compiled, data)
    return data


def _jacobian(compiled: Any, data: Any) -> np.ndarray:
    """Of the centres of mass and the rotations of all bodies."""
    mujoco.mj_normalizeQuat(compiled, data.qpos)
    mujoco.mj_kinematics(compiled, data)
    mujoco.mj_comPos(compiled, data)
    found = []
    for body in range(1, compiled.nbody):
        rows = np.zeros((2, 3, compiled.nv))
        mujoco.mj_jacBodyCom(compiled, data, rows[0], rows[1], body)
        found.append(rows.reshape(6, -1))
    return np.concatenate(found)


def read_again(text: str, compiled: Any, data: Any, **options: Any) -> Any:
    """The file, read at the positions and velocities of MuJoCo's data."""
    positions, velocities = {}, {}
    for j in range(compiled.njnt):
        name, kind = mujoco.mj_id2name(compiled, mujoco.mjtObj.mjOBJ_JOINT, j), compiled.jnt_type[j]
        p, v = compiled.jnt_qposadr[j], compiled.jnt_dofadr[j]
        positions[name] = data.qpos[p : p + (7, 4, 1, 1)[kind]]
        velocities[name] = data.qvel[v : v + (6, 3, 1, 1)[kind]]
    return ph.load_model(text, keyframe="start", positions=positions, velocities=velocities, **options)


def check_constraints(compiled: Any, data: Any) -> None:
    """Puts the accelerations of MuJoCo's masses and forces into its data as if equalities held exactly."""
    J, still = data.efc_J.reshape(-1, compiled.nv).copy(), data.qpos.copy()
    assert len(J) == data.ne > 0
    sides = []
    for step in (1e-5, -1e-5):
        data.qpos[:] = still
        mujoco.mj_integratePos(compiled, data.qpos, data.qvel, step)
        mujoco.mj_forward(compiled, data)
        sides.append(data.efc_J.reshape(-1, compiled.nv) @ data.qvel)
    data.qpos[:] = still
    mujoco.mj_forward(compiled, data)
    mass = np.zeros((compiled.nv, compiled.nv))
    mujoco.mj_fullM(compiled, data, mass)
    matrix = np.block([[mass, J.T], [J, np.zeros((len(J), len(J)))]])
    right = np.concatenate((data.qfrc_smooth, -(sides[0] - sides[1]) / 2e-5))
    data.qacc[:] = np.linalg.lstsq(matrix, right, rcond=1e-12)[0][: compiled.nv]
