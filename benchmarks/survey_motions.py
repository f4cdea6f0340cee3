"""Two seconds of the default run of each robot: where it ends, what its audit says, and accelerations along the way.

    python benchmarks/survey_motions.py [cmu] [dog] … [--seconds 2]

Robots are those of `robots.py`, as their files have them: stops, dampers, springs and friction on, nothing touches.
At three instants of the run, positions and velocities of all joints are handed to MuJoCo, or for URDF to Pinocchio,
and the accelerations of all bodies are compared as in `survey_machines.py`: in joint coordinates, relative to the
largest, without what the other code has softer or not at all (limits, dry friction, equalities). Needs the extra
`survey`.
"""

from __future__ import annotations

import argparse
import warnings
from types import SimpleNamespace
from typing import Any

import jax
import numpy as np
import survey_machines
from robots import ROBOTS, Robot

import polhode as ph

SHARES = (0.2, 0.6, 1.0)
"""Instants of the comparison, as shares of the run."""
ROWS = 400
"""Frames of a run."""


def default_run(robot: Robot, seconds: float) -> tuple[Any, ph.Problem, ph.Solution, str]:
    """The imported model, its problem, the run and what ended it early, if anything."""
    imported = ph.load_model(robot.path, **({"floating": True} if robot.floating else {}))
    problem = imported.problem()
    try:
        run, trouble = ph.simulate(problem, t1=seconds, save_every=max(1, round(seconds / problem.h / ROWS))), ""
    except ph.SimulationError as error:
        run, trouble = error.solution, str(error)
    return imported, problem, run, trouble


class Comparison:
    """Accelerations of another code at states of a run."""

    def __init__(self, robot: Robot, imported: Any) -> None:
        self.robot, self.imported = robot, imported
        urdf = robot.path.suffix == ".urdf"
        self.other: Any = (survey_machines.Pinocchio if urdf else survey_machines.MuJoCo)(robot.path)
        if robot.floating:
            pin = self.other.pin
            self.other.model = pin.buildModelFromUrdf(str(robot.path), pin.JointModelFreeFlyer())
            self.other.data = self.other.model.createData()
        self.set = self._set_pinocchio if urdf else self._set_mujoco
        self.traced = survey_machines.Accelerations()

    def errors(self, run_system: Any, run: ph.Solution) -> list[float]:
        """One for each of `SHARES` of a run of a system."""
        with self.other.copied() as path:
            options: dict[str, Any] = {"floating": True} if self.robot.floating else {}
            bare = survey_machines.load(path, limits=False, stick_velocity=None, **options)
            self.other.prepare({item.what: list(item.names) for item in bare.not_carried})
            links = {name: body.name for name, body in bare.links.items()}
            system, errors = bare.problem("minimal").system, []
            for share in SHARES:
                state = jax.tree.map(lambda rows, at=share: rows[round(at * (len(run.t) - 1))], run.state)
                self.set(*self._joint_states(run_system, state))
                at = SimpleNamespace(system=system, state0=state)
                errors.append(survey_machines.largest_error(at, links, self.other, self.traced))
            return errors

    def _joint_states(self, system: Any, state: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        """Positions and velocities by joint; of free ones (origin, rotation) and (velocity there, angular velocity)."""
        motion, row = system.motion(*state), {name: number for number, name in enumerate(system.names)}
        positions, velocities = {}, {}
        for name, joint in self.imported.joints.items():
            if joint.measured:
                positions[name], velocities[name] = (float(f(system, 0.0, state)) for f in (joint.value, joint.rate))
                continue
            if joint.kind != "free":
                raise survey_machines.NotComparable(f"{name}: {joint.kind}")
            body = joint.ends[1]
            x, R, omega, u = (np.asarray(rows[row[body.name]]) for rows in (*motion.poses, *motion.twists))
            arm = R @ np.asarray(body.R).T @ (np.asarray(body.x) - self._origin(name))
            positions[name], velocities[name] = (x - arm, R), (u - np.cross(R @ omega, arm), omega)
        return positions, velocities

    def _origin(self, joint: str) -> np.ndarray:
        """Where the frame of a free body is at the start."""
        if self.robot.floating:
            return np.zeros(3)
        m = self.other.model
        (number,) = self.other._numbers("JOINT", [joint])
        return m.qpos0[m.jnt_qposadr[number] :][:3].copy()

    def _set_mujoco(self, positions: dict[str, Any], velocities: dict[str, Any]) -> None:
        mj, m, data = self.other.mj, self.other.model, self.other.data
        mj.mj_resetData(m, data)
        for name, value in positions.items():
            (number,) = self.other._numbers("JOINT", [name])
            p, v, rate = m.jnt_qposadr[number], m.jnt_dofadr[number], velocities[name]
            if isinstance(value, float):
                data.qpos[p], data.qvel[v] = value, rate
                continue
            mj.mju_mat2Quat(data.qpos[p + 3 : p + 7], value[1].reshape(9))
            data.qpos[p : p + 3], data.qvel[v : v + 6] = value[0], np.concatenate(rate)
        mj.mj_forward(m, data)
        mj.mj_rnePostConstraint(m, data)

    def _set_pinocchio(self, positions: dict[str, Any], velocities: dict[str, Any]) -> None:
        pin, model, data = self.other.pin, self.other.model, self.other.data
        q, v = pin.neutral(model), np.zeros(model.nv)
        for number in range(1, model.njoints):
            joint, name = model.joints[number], model.names[number]
            own, rates = slice(joint.idx_q, joint.idx_q + joint.nq), slice(joint.idx_v, joint.idx_v + joint.nv)
            if name == "root_joint":
                ((x, R), (u, omega)) = next(
                    (value, velocities[other]) for other, value in positions.items() if not isinstance(value, float)
                )
                q[own], v[rates] = pin.SE3ToXYZQUAT(pin.SE3(R, x)), np.concatenate((R.T @ u, omega))
            else:
                q[own] = self.other._coordinates(joint, np.array([positions[name]]))
                v[rates] = velocities[name]
        pin.forwardKinematics(model, data, q, v, self.other._accelerations(q, v))
        pin.updateFramePlacements(model, data)


def measure(name: str, seconds: float) -> str:
    robot = ROBOTS[name]
    imported, problem, run, trouble = default_run(robot, seconds)
    audit = run.audit()
    worst = "; ".join(str(remark) for remark in audit.remarks) or "accurate"
    try:
        errors = ", ".join(f"{error:.1e}" for error in Comparison(robot, imported).errors(problem.system, run))
    except survey_machines.NotComparable as error:
        errors = f"not compared: {error}"
    end = f"{run.t[-1]:.3g}" + (f": {trouble}" if trouble else "")
    row = (name, problem.system.n, f"`{problem.integrator}`", f"{problem.h:g}", end, worst, errors)
    return f"| {' | '.join(map(str, row))} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robots", nargs="*", choices=[[], *ROBOTS], metavar="ROBOT", help=f"of {', '.join(ROBOTS)}")
    parser.add_argument("--seconds", type=float, default=2.0, help="of each run")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    print(
        "| | velocities | method | h | until | audit | errors of accelerations |\n|---|---|---|---|---|---|---|",
        flush=True,
    )
    for name in options.robots or ROBOTS:
        print(measure(name, options.seconds), flush=True)


if __name__ == "__main__":
    main()
