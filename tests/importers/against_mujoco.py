"""Imported models beside MuJoCo's own: the same state in both, and the accelerations of all bodies."""

from __future__ import annotations

import functools
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import mujoco
import numpy as np
from compiling import evaluated

import polhode as ph

EXAMPLES = Path(__file__).parents[2] / "examples"


def smooth(model: Any) -> Any:
    """MuJoCo's model without friction, limits and contacts, which are not carried over."""
    bits = mujoco.mjtDisableBit
    model.opt.disableflags |= int(bits.mjDSBL_FRICTIONLOSS) | int(bits.mjDSBL_LIMIT) | int(bits.mjDSBL_CONTACT)
    return model


def read(path: Any) -> Any:
    return smooth(mujoco.MjModel.from_xml_path(str(path)))


def at_random(model: Any, seed: int) -> Any:
    """MuJoCo's data at random positions and velocities, all between -1 and 1, with accelerations."""
    data = mujoco.MjData(model)
    random = np.random.default_rng(seed)
    data.qpos[:] = random.uniform(-1, 1, model.nq)
    data.qvel[:] = random.uniform(-1, 1, model.nv)
    mujoco.mj_normalizeQuat(model, data.qpos)
    mujoco.mj_forward(model, data)
    return data


def load_at(path: Any, model: Any, data: Any, **options: Any) -> Any:
    """The file, imported at the positions and velocities of MuJoCo's data."""
    positions, velocities = {}, {}
    for j in range(model.njnt):
        name, kind = mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_JOINT, j), model.jnt_type[j]
        p, v = model.jnt_qposadr[j], model.jnt_dofadr[j]
        positions[name] = data.qpos[p : p + (7, 4, 1, 1)[kind]]
        velocities[name] = data.qvel[v : v + (6, 3, 1, 1)[kind]]
    smooth_only = {"limits": False, "stick_velocity": None}
    return ph.load_model(path, positions=positions, velocities=velocities, **{**smooth_only, **options})


def _accelerations(system: Any, q: Any, v: Any) -> Any:
    a = system.accelerations(jnp.zeros(()), q, v)[0]

    def twists(s: Any) -> Any:
        return system.motion(system.configuration.move(q, s * system.kinematics(q, v)), v + s * a)

    motion, rates = jax.jvp(twists, (jnp.zeros(()),), (jnp.ones(()),))
    return jnp.einsum("nij,nj->ni", motion.poses.R, rates.twists.omega), rates.twists.u


def bodies_accelerations(system: Any, q: Any, v: Any) -> np.ndarray:
    """Angular accelerations and accelerations of the centres of all bodies, shape (n, 6)."""
    return np.concatenate(evaluated(functools.partial(_accelerations, system), q, v), axis=1)


def largest_difference(problem: Any, model: Any, data: Any) -> float:
    """Between angular accelerations and accelerations of the centres of all bodies, relative to the largest one."""
    system, (q, v) = problem.system, problem.state0
    found = bodies_accelerations(system, q, v)
    wanted = np.zeros((len(system.names), 6))
    mujoco.mj_rnePostConstraint(model, data)
    known = {mujoco.mj_id2name(model, mujoco.mjtObj.mjOBJ_BODY, i) for i in range(model.nbody)}
    rows = [i for i, name in enumerate(system.names) if name in known]
    for i in rows:
        number = mujoco.mj_name2id(model, mujoco.mjtObj.mjOBJ_BODY, system.names[i])
        mujoco.mj_objectAcceleration(model, data, mujoco.mjtObj.mjOBJ_BODY, number, wanted[i], 0)
        # MuJoCo's are those of an accelerometer.
        if not model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_GRAVITY):
            wanted[i, 3:] += model.opt.gravity
        centre = system.pose(q, system.names[i]).x
        wanted[i, 3:] += _to_centre(model, data, number, np.asarray(centre), wanted[i, :3])
    return float(np.max(np.abs(found[rows] - wanted[rows])) / np.max(np.abs(wanted)))


def _to_centre(model: Any, data: Any, body: int, centre: np.ndarray, alpha: np.ndarray) -> np.ndarray:
    """From a body's own centre of mass to that of all that is fixed to it."""
    arm, twist = centre - data.xipos[body], np.zeros(6)
    mujoco.mj_objectVelocity(model, data, mujoco.mjtObj.mjOBJ_BODY, body, twist, 0)
    return np.cross(alpha, arm) + np.cross(twist[:3], np.cross(twist[:3], arm))
