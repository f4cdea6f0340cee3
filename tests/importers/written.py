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
        system, state = again.model.assemble("minimal", repair=True, redundant="minimum-norm")
        found, wanted = (bodies_accelerations(s, *x) for s, x in ((system, state), (self.system, self.state0)))
        rows = [system.names.index(name) for name in self.system.names]
        wanted = wanted[: len(rows)]
        return float(np.max(np.abs(found[rows] - wanted)) / np.max(np.abs(wanted)))


def case(model: Any, text: str, seed: int = 0, size: float = 0.5) -> Case:
    """A model in joint coordinates at random ones near its start, and its file likewise."""
    system, (q0, _) = model.assemble("minimal", redundant="minimum-norm", repair=True)
    random = np.random.default_rng(seed)
    n = sum(link.motion.n for link in system.coordinates.links)
    q = system.configuration.move(q0, jnp.asarray(random.uniform(-size, size, n)))
    v = jnp.asarray(random.uniform(-1, 1, n))
    compiled = smooth(mujoco.MjModel.from_xml_string(text))
    return Case(system, (q, v), compiled, placed(compiled, system, q, v), text)


def placed(compiled: Any, system: Any, q: Any, v: Any) -> Any:
    """MuJoCo's data where bodies are where the system has those of their names, and move as these do."""
    data = mujoco.MjData(compiled)
    if compiled.nkey:
        mujoco.mj_resetDataKeyframe(compiled, data, 0)
    motion = system.motion(q, v)
    x, R, omega, u = (np.asarray(a) for a in (*motion.poses, *motion.twists))
    numbers = [mujoco.mj_name2id(compiled, mujoco.mjtObj.mjOBJ_BODY, name) for name in system.names]
    assert min(numbers) > 0
    for _ in range(12):
        J, gap = _jacobian(compiled, data, numbers, x), []
        for k, body in enumerate(numbers):
            turn = R[k] @ data.xmat[body].reshape(3, 3).T
            gap += [x[k] - data.xipos[body], [turn[2, 1] - turn[1, 2], turn[0, 2] - turn[2, 0], turn[1, 0] - turn[0, 1]]]
        gap = np.concatenate(gap) * np.tile([1, 1, 1, 0.5, 0.5, 0.5], len(numbers))
        mujoco.mj_integratePos(compiled, data.qpos, np.linalg.lstsq(J, gap, rcond=None)[0], 1.0)
    assert np.max(np.abs(gap)) < 1e-12
    J = _jacobian(compiled, data, numbers, x)
    wanted = np.concatenate([np.concatenate((u[k], R[k] @ omega[k])) for k in range(len(numbers))])
    data.qvel[:] = np.linalg.lstsq(J, wanted, rcond=None)[0]
    np.testing.assert_allclose(J @ data.qvel, wanted, atol=1e-11)
    mujoco.mj_forward(compiled, data)
    return data


def _jacobian(compiled: Any, data: Any, numbers: list[int], x: np.ndarray) -> np.ndarray:
    """Of the centres of mass and the rotations of bodies."""
    mujoco.mj_normalizeQuat(compiled, data.qpos)
    mujoco.mj_kinematics(compiled, data)
    mujoco.mj_comPos(compiled, data)
    found = []
    for body in numbers:
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
