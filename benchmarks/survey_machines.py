"""Which articulated URDF and MJCF files load, and how their accelerations compare with Pinocchio's and MuJoCo's.

    python benchmarks/survey_machines.py [FOLDER ...] [--urdf] [--mjcf] [--only PATTERN] [--coordinates minimal]
        [--jobs 1] [--json FILE]

Every file of the installed packages, or of the folders, once for each content. Articulated are URDF files that
Pinocchio builds, with the root fixed, to a model with a regular mass matrix, and MJCF files that MuJoCo compiles with
joints. Each is loaded by `polhode.load_model` as it is, and at three random states, positions and velocities between -1
and 1. Compared are angular accelerations and accelerations of the centres of all bodies, relative to the largest one,
in joint coordinates and on S³×R³:

- URDF with the articulated-body algorithm; where joints mimic others with the mass matrix and the bias forces, reduced
  to those that don't. Dampers are efforts, which Pinocchio is given. Limits and friction it hasn't.
- MJCF with `mj_forward`, armature, springs, dampers, tendons and actuators on, with random controls between -1 and 1,
  or none where they have a state. Contacts, limits, dry friction and equalities are switched off by a flag in a copy
  that both codes read, which lies beside the file as long as that takes: MuJoCo's are soft, which nothing else agrees
  with. What `not_carried` names besides is switched off for MuJoCo, and the file counts as compared without it.

Every file is read in a process with a time limit. Needs the extra `survey`: Pinocchio, and packages that bring files.
"""

from __future__ import annotations

import argparse
import contextlib
import dataclasses
import fnmatch
import functools
import gc
import hashlib
import importlib.metadata
import json
import multiprocessing
import os
import re
import signal
import sys
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

os.environ.setdefault("OMP_NUM_THREADS", "1")

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from rich.console import Console
from rich.table import Table

import polhode as ph
from polhode.compiler.numpy.interpreter import from_jaxpr

FORMULATIONS = ("minimal", "S3xR3")
STATES = 3
"""Random states of a file."""
AGREES = 1e-10
WAITS = 10.0
"""Times the time limit, after which a process is given up that hasn't used it."""
LIMITS = hasattr(signal, "setitimer")
"""Whether the system can limit the time of processors."""
SMALLEST_MOTION = 1e-9
"""Where no acceleration is larger, errors are absolute: there is but round-off."""
REGULAR = 1e-12
"""Smallest eigenvalue of a regular mass matrix whose diagonal is scaled to one."""
SWITCHES = 'contact="disable" limit="disable" frictionloss="disable" equality="disable"'
EXAMPLE = '<robot name="a"><link name="b"/><joint name="c" type="revolute"><parent link="b"/><child link="d"/></joint>\
<link name="d"><inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1"/></inertial></link></robot>'
IGNORED_FEATURES = {"contacts", "limits of joints", "dry friction of joints"}
"""Features that are not carried, without consequences for the comparison."""


class NotComparable(Exception):
    """A feature of the file can't be switched off in the other code."""


@dataclasses.dataclass
class Row:
    """Outcome of a file.

    - `outcome`: "loaded", "not loaded", "no problem" where the model makes none, "not articulated", "out of time" or
      "crashed"; `reason`: why.
    - `formulations`: those that are compared. - `bodies`, `freedoms`: of the model, and of the other code.
    - `lost`: what of the file isn't carried and changes the motion → names.
    - `errors`: formulation → largest relative error; `trouble`: formulation → why there is none.
    - `without`: what was switched off for the comparison.
    - `load`: code → seconds of the processor that reading took, "polhode" and "other"; `seconds`: of all.
    """

    file: str
    kind: str
    formulations: Sequence[str] = FORMULATIONS
    outcome: str = ""
    reason: str = ""
    bodies: int = 0
    freedoms: int = 0
    lost: dict[str, list[str]] = dataclasses.field(default_factory=dict)
    errors: dict[str, float] = dataclasses.field(default_factory=dict)
    trouble: dict[str, str] = dataclasses.field(default_factory=dict)
    without: list[str] = dataclasses.field(default_factory=list)
    load: dict[str, float] = dataclasses.field(default_factory=dict)
    seconds: float = 0.0


class Motion(NamedTuple):
    """Of points that are fixed to bodies: position, angular velocity, angular acceleration and acceleration."""

    x: np.ndarray
    omega: np.ndarray
    alpha: np.ndarray
    a: np.ndarray

    def at(self, x: np.ndarray) -> np.ndarray:
        """Angular acceleration and acceleration at another point of the body, shape (6,)."""
        arm = x - self.x
        turning = np.cross(self.alpha, arm) + np.cross(self.omega, np.cross(self.omega, arm))
        return np.concatenate((self.alpha, self.a + turning))


# --- other codes ------------------------------------------------------------------------------------------------------


class Pinocchio:
    """A URDF file in Pinocchio, at random states."""

    def __init__(self, path: Path) -> None:
        import pinocchio

        self.pin, self.path = pinocchio, path
        self.model = pinocchio.buildModelFromUrdf(str(path))
        self.data = self.model.createData()
        self.mimics = self._mimics()

    def why_not_articulated(self) -> str:
        """Nothing if it is."""
        if not self.model.nv:
            return "no joints"
        M = self._mass_matrix(self.pin.neutral(self.model))
        diagonal = np.diag(M)
        if not np.isfinite(M).all() or np.min(diagonal) <= 0:
            return "singular mass matrix"
        scaled = M / np.sqrt(np.outer(diagonal, diagonal))
        return "" if np.linalg.eigvalsh(scaled)[0] > REGULAR else "singular mass matrix"

    @property
    def freedoms(self) -> int:
        return self.model.nv

    def prepare(self, lost: dict[str, list[str]]) -> list[str]:
        """Nothing to switch off: Pinocchio has no more than what is carried."""
        return sorted(set(lost) - IGNORED_FEATURES - {"effort limits"})

    @contextlib.contextmanager
    def copied(self) -> Iterator[Path]:
        """The file that is compared."""
        yield self.path

    def draw(self, seed: int) -> dict[str, dict[str, Any]]:
        """A state and its accelerations; positions and velocities by name, as `load_model` takes them."""
        pin, model, data = self.pin, self.model, self.data
        random = np.random.default_rng(seed)
        q, v = pin.neutral(model), random.uniform(-1, 1, model.nv)
        positions: dict[str, Any] = {}
        velocities: dict[str, Any] = {}
        # Joints that mimic another one come after those that mimic none.
        for number in sorted(range(1, model.njoints), key=lambda n: model.names[n] in self.mimics):
            joint, name = model.joints[number], model.names[number]
            own, rates = slice(joint.idx_q, joint.idx_q + joint.nq), slice(joint.idx_v, joint.idx_v + joint.nv)
            if name in self.mimics:
                leader, ratio, offset = self.mimics[name]
                q[own] = self._coordinates(joint, np.array([ratio * positions[leader] + offset]))
                v[rates] = ratio * velocities[leader]
                continue
            given = random.uniform(-1, 1, 7 if joint.nv == 6 else joint.nv)
            given[3:] /= np.linalg.norm(given[3:]) if joint.nv == 6 else 1.0
            q[own] = self._coordinates(joint, given)
            for key, x, rate in self._named(name, given, v[rates]):
                positions[key], velocities[key] = x, rate
        a = self._accelerations(q, v)
        pin.forwardKinematics(model, data, q, v, a)
        pin.updateFramePlacements(model, data)
        return {"positions": positions, "velocities": velocities}

    def _accelerations(self, q: np.ndarray, v: np.ndarray) -> np.ndarray:
        effort = -np.asarray(self.model.damping) * v
        if not self.mimics:
            return self.pin.aba(self.model, self.data, q, v, effort).copy()
        # v = G times the velocities of the joints that mimic none.
        G = np.eye(self.model.nv)
        for name, (leader, ratio, _) in self.mimics.items():
            row, column = (self.model.joints[self.model.getJointId(n)].idx_v for n in (name, leader))
            G[row] = ratio * np.eye(self.model.nv)[column]
        G = G[:, np.any(G, axis=0)]
        bias = self.pin.nonLinearEffects(self.model, self.data, q, v)
        return G @ np.linalg.solve(G.T @ self._mass_matrix(q) @ G, G.T @ (effort - bias))

    def _mass_matrix(self, q: np.ndarray) -> np.ndarray:
        M = self.pin.crba(self.model, self.model.createData(), q)
        return np.triu(M) + np.triu(M, 1).T

    def _mimics(self) -> dict[str, tuple[str, float, float]]:
        """Joint → the one that it follows, factor and offset."""
        result = {}
        # Pinocchio reads files with blank lines before their declaration.
        for joint in ElementTree.fromstring(self.path.read_bytes().strip()).iter("joint"):
            mimic = joint.find("mimic")
            ends = [joint.get("name", ""), "" if mimic is None else mimic.get("joint", "")]
            if mimic is not None and all(map(self.model.existJointName, ends)):
                numbers = (float(mimic.get(key, default)) for key, default in (("multiplier", "1"), ("offset", "0")))
                result[joint.get("name", "")] = (mimic.get("joint", ""), *numbers)
        return result

    @staticmethod
    def _coordinates(joint: Any, given: np.ndarray) -> np.ndarray:
        """Coordinates of a joint in Pinocchio, from those that MuJoCo has."""
        match joint.nq, joint.nv:
            case (2, 1) | (4, 3):
                return np.concatenate((given[:-1], np.cos(given[-1:]), np.sin(given[-1:])))
            case 7, 6:
                return np.concatenate((given[:3], given[4:], given[3:4]))
        return given

    @staticmethod
    def _named(name: str, given: np.ndarray, rates: np.ndarray) -> Iterator[tuple[str, Any, Any]]:
        """Names, positions and velocities that `load_model` has."""
        if len(rates) == 3:
            # Pinocchio's velocities are along axes that turn with the body.
            c, s = np.cos(given[2]), np.sin(given[2])
            turned = (c * rates[0] - s * rates[1], s * rates[0] + c * rates[1], rates[2])
            for axis, x, rate in zip(("_TX", "_TY", "_RZ"), given, turned, strict=True):
                yield name + axis, x, rate
        elif len(rates) == 6:
            yield name, given, np.concatenate((rotation(given[3:]) @ rates[:3], rates[3:]))
        else:
            yield name, float(given[0]), float(rates[0])

    def motion(self, link: str) -> Motion | None:
        """Of the origin of a link."""
        pin, model, data = self.pin, self.model, self.data
        if not model.existBodyName(link):
            return None
        frame = model.getFrameId(link, pin.FrameType.BODY)
        aligned = pin.ReferenceFrame.LOCAL_WORLD_ALIGNED
        rate = pin.getFrameClassicalAcceleration(model, data, frame, aligned)
        omega = pin.getFrameVelocity(model, data, frame, aligned).angular
        return Motion(*map(np.array, (data.oMf[frame].translation, omega, rate.angular, rate.linear)))


class MuJoCo:
    """An MJCF file in MuJoCo, at random states."""

    def __init__(self, path: Path) -> None:
        import mujoco

        self.mj, self.path = mujoco, path
        self.model = self._compiled(path)
        self.data = mujoco.MjData(self.model)

    def _compiled(self, path: Path) -> Any:
        return self.mj.MjModel.from_xml_path(str(path))

    def why_not_articulated(self) -> str:
        """Nothing if it is."""
        return "" if self.model.nv else "no joints"

    @property
    def freedoms(self) -> int:
        return self.model.nv

    @contextlib.contextmanager
    def copied(self) -> Iterator[Path]:
        """The file that is compared: a copy with what is soft in MuJoCo switched off."""
        text = self.path.read_bytes()
        place = text.rindex(b"</mujoco>")
        switched = text[:place] + f"<option><flag {SWITCHES}/></option>".encode() + text[place:]
        with tempfile.NamedTemporaryFile(dir=self.path.parent, prefix=copies(os.getpid()), suffix=".xml") as copy:
            copy.write(switched)
            copy.flush()
            self.model = self._compiled(Path(copy.name))
            self.data = self.mj.MjData(self.model)
            yield Path(copy.name)

    def prepare(self, lost: dict[str, list[str]]) -> list[str]:
        """Switches off what isn't carried; returns what that was."""
        left = {what: names for what, names in lost.items() if what not in IGNORED_FEATURES}
        for what, names in left.items():
            self._switch_off(what, names)
        return sorted(left)

    def _switch_off(self, what: str, names: list[str]) -> None:
        m, numbers = self.model, functools.partial(self._numbers, names=names)
        match what:
            case "tendons":
                clear(numbers("TENDON"), m.tendon_stiffness, m.tendon_damping, m.tendon_armature)
                clear(numbers("TENDON"), m.tendon_stiffnesspoly, m.tendon_dampingpoly)
            case "springs of joints":
                clear(numbers("JOINT"), m.jnt_stiffness, m.jnt_stiffnesspoly)
            case "nonlinear joint springs":
                clear(numbers("JOINT"), m.jnt_stiffnesspoly, m.jnt_springyield)
            case "dampers of joints":
                clear(np.isin(m.dof_jntid, numbers("JOINT")), m.dof_damping, m.dof_dampingpoly)
            case "nonlinear joint damping":
                clear(np.isin(m.dof_jntid, numbers("JOINT")), m.dof_dampingpoly)
            case "armature of joints":
                clear(np.isin(m.dof_jntid, numbers("JOINT")), m.dof_armature)
            case "fluid":
                m.opt.density = m.opt.viscosity = 0
            case "actuators":
                clear(numbers("ACTUATOR"), m.actuator_gainprm, m.actuator_biasprm, m.actuator_gear)
                clear(numbers("ACTUATOR"), m.actuator_damping, m.actuator_dampingpoly, m.actuator_armature)
            case _ if not what.endswith(" equality"):
                raise NotComparable(f"{what}: not switched off for MuJoCo")

    def _numbers(self, kind: str, names: Sequence[str]) -> list[int]:
        kind = getattr(self.mj.mjtObj, f"mjOBJ_{kind}")
        found = [self.mj.mj_name2id(self.model, kind, name) for name in names]
        # Those without a name are called by their kind and number.
        return [int(name.rpartition("-")[2]) if i < 0 else i for i, name in zip(found, names, strict=True)]

    def draw(self, seed: int) -> dict[str, dict[str, Any]]:
        """A state and its accelerations; positions, velocities and controls by name, as `load_model` takes them."""
        m, data, mj = self.model, self.data, self.mj
        random = np.random.default_rng(seed)
        mj.mj_resetData(m, data)
        data.qpos[:] = random.uniform(-1, 1, m.nq)
        data.qvel[:] = random.uniform(-1, 1, m.nv)
        # Those with a state are at rest.
        data.ctrl[:] = random.uniform(-1, 1, m.nu) * (m.actuator_dyntype == int(mj.mjtDyn.mjDYN_NONE))
        mj.mj_normalizeQuat(m, data.qpos)
        mj.mj_forward(m, data)
        mj.mj_rnePostConstraint(m, data)
        positions, velocities = {}, {}
        for j in range(m.njnt):
            name, kind = mj.mj_id2name(m, mj.mjtObj.mjOBJ_JOINT, j) or f"joint-{j}", m.jnt_type[j]
            p, v = m.jnt_qposadr[j], m.jnt_dofadr[j]
            positions[name] = data.qpos[p : p + (7, 4, 1, 1)[kind]].copy()
            velocities[name] = data.qvel[v : v + (6, 3, 1, 1)[kind]].copy()
        names = [mj.mj_id2name(m, mj.mjtObj.mjOBJ_ACTUATOR, i) or f"actuator-{i}" for i in range(m.nu)]
        controls = dict(zip(names, map(float, data.ctrl), strict=True))
        return {"positions": positions, "velocities": velocities, "controls": controls}

    def motion(self, link: str) -> Motion | None:
        """Of the centre of mass of a body."""
        mj, m, data = self.mj, self.model, self.data
        (number,) = self._numbers("BODY", [link])
        rate, twist = np.zeros(6), np.zeros(6)
        mj.mj_objectAcceleration(m, data, mj.mjtObj.mjOBJ_BODY, number, rate, 0)
        mj.mj_objectVelocity(m, data, mj.mjtObj.mjOBJ_BODY, number, twist, 0)
        # Accelerations are those of an accelerometer.
        weight = m.opt.gravity * (not m.opt.disableflags & mj.mjtDisableBit.mjDSBL_GRAVITY)
        return Motion(data.xipos[number].copy(), twist[:3], rate[:3], rate[3:] + weight)


def copies(process: int) -> str:
    """How the names of the copies that a process makes begin."""
    return f".survey-{process}-"


def clear(which: Any, *arrays: np.ndarray) -> None:
    for values in arrays:
        values[which] = 0


def rotation(quaternion: np.ndarray) -> np.ndarray:
    """The matrix of a unit quaternion (w, x, y, z)."""
    w, x, y, z = quaternion
    spin = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    return np.eye(3) + 2 * w * spin + 2 * spin @ spin


# --- a file -----------------------------------------------------------------------------------------------------------


def accelerations(system: Any, q: Any, v: Any) -> Any:
    """Positions of all bodies, their angular accelerations and the accelerations of their centres."""
    a = system.accelerations(jnp.zeros(()), q, v)[0]

    def twists(s: Any) -> Any:
        return system.motion(system.configuration.move(q, s * system.kinematics(q, v)), v + s * a)

    motion, rates = jax.jvp(twists, (jnp.zeros(()),), (jnp.ones(()),))
    return motion.poses.x, jnp.einsum("nij,nj->ni", motion.poses.R, rates.twists.omega), rates.twists.u


class Accelerations:
    """Those of systems that differ in numbers alone, which are traced once."""

    def __init__(self) -> None:
        self._rest: Any = None
        self._listing: Any = None

    def __call__(self, problem: ph.Problem) -> list[np.ndarray]:
        """As `accelerations` returns them, at the start, by NumPy: compiling takes longer than that."""
        numbers, rest = eqx.partition(problem.system, eqx.is_array)
        arguments = numbers, *problem.state0
        if self._listing is None or eqx.tree_equal(rest, self._rest) is not True:
            trace = jax.make_jaxpr(lambda numbers, q, v: accelerations(eqx.combine(numbers, rest), q, v))
            self._rest, self._listing = rest, from_jaxpr(trace(*arguments))
        with np.errstate(all="ignore"):
            return self._listing([np.asarray(x) for x in jax.tree.leaves(arguments)])


def largest_error(
    problem: ph.Problem, links: dict[str, str], other: Pinocchio | MuJoCo, accelerations_of: Accelerations
) -> float:
    """Of the accelerations of all bodies, relative to the largest; `links`: link or body of the file → of the model."""
    system: Any = problem.system
    x, alpha, a = accelerations_of(problem)
    row = {name: number for number, name in enumerate(system.names)}
    actual, expected = [], []
    for link, body in links.items():
        motion = other.motion(link) if body in row else None
        if motion is not None:
            actual.append(np.concatenate((alpha[row[body]], a[row[body]])))
            expected.append(motion.at(x[row[body]]))
    largest = np.max(np.abs(expected))
    error = np.max(np.abs(np.array(actual) - np.array(expected)))
    return float(error / largest) if largest > SMALLEST_MOTION else float(error)


def package_of(path: Path) -> Path:
    """The installed package that a file belongs to, all over which its meshes may be; else the folder above its own."""
    whole = path.absolute()
    return next((up for up in whole.parents if up.parent.name == "site-packages"), whole.parent.parent)


def load(path: Path, **given: Any) -> Any:
    return ph.load_model(path, mesh_paths=package_of(path), **given)


def time_reading(read: Callable[[Path], Any], path: Path) -> tuple[Any, float]:
    """The result of reading a file, and the lesser processor time of two readings."""
    seconds: list[float] = []
    result = None
    for _ in range(2):
        gc.collect()
        began = time.thread_time()
        result = read(path)
        seconds.append(time.thread_time() - began)
    return result, min(seconds)


def survey(path: Path, row: Row) -> None:
    """Fills in what becomes of a file."""
    code = Pinocchio if row.kind == "urdf" else MuJoCo
    try:
        other = code(path)
        why = other.why_not_articulated()
    except Exception as error:
        other, why = None, f"{code.__name__} can't read it: {describe_error(error)}"
    if why or other is None:
        row.outcome, row.reason = "not articulated", why
        return
    row.load["other"] = time_reading(code, path)[1]
    row.freedoms, row.outcome = other.freedoms, "not loaded"
    try:
        imported, row.load["polhode"] = time_reading(load, path)
    except Exception as error:
        row.reason = describe_error(error, path)
        return
    row.bodies = len(set(map(id, imported.links.values()))) - 1
    row.lost = {item.what: list(item.names) for item in imported.not_carried}
    row.outcome = "no problem"
    try:
        imported.problem("minimal")
    except Exception as error:
        row.reason = describe_error(error, path)
        return
    row.outcome = "loaded"
    with other.copied() as copy:
        compare(copy, row, other)


def compare(path: Path, row: Row, other: Pinocchio | MuJoCo) -> None:
    """Accelerations at random states."""
    try:
        items = load(path, limits=False, stick_velocity=None).not_carried
        lost = {i.what: list(i.names) for i in items}
        row.without = other.prepare(lost)
    except Exception as error:
        row.trouble = dict.fromkeys(row.formulations, describe_error(error, path))
        return
    traced = {formulation: Accelerations() for formulation in row.formulations}
    for seed in range(STATES):
        for formulation in row.formulations:
            try:
                error = compare_accelerations(path, formulation, other, seed, traced[formulation])
                row.errors[formulation] = float(np.maximum(row.errors.get(formulation, 0.0), error))
            except Exception as error:
                row.trouble[formulation] = describe_error(error, path)


def compare_accelerations(
    path: Path, formulation: str, other: Pinocchio | MuJoCo, seed: int, accelerations_of: Accelerations
) -> float:
    imported = load(path, limits=False, stick_velocity=None, **other.draw(seed))
    links = {name: body.name for name, body in imported.links.items()}
    return largest_error(imported.problem(formulation), links, other, accelerations_of)


def describe_error(error: BaseException, path: Path | None = None) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text if path is None else text.replace(str(path), path.name)}"[:600]


# --- all files --------------------------------------------------------------------------------------------------------


def files_of_packages() -> Iterator[tuple[str, Path]]:
    """Names by package and path, and where the files are."""
    for package in importlib.metadata.distributions():
        for file in package.files or []:
            if file.suffix in (".urdf", ".xml", ".mjcf"):
                yield f"{package.name}: {file}", Path(str(file.locate()))


def files_of(folders: Sequence[Path]) -> Iterator[tuple[str, Path]]:
    for folder in folders:
        for path in sorted(folder.rglob("*")):
            if path.suffix in (".urdf", ".xml", ".mjcf") and path.is_file():
                yield f"{folder.name}: {path.relative_to(folder)}", path


def select_files(options: argparse.Namespace) -> list[tuple[Row, Path]]:
    """Each content once, in the order of names."""
    kinds = {kind for kind in ("urdf", "mjcf") if getattr(options, kind)} or {"urdf", "mjcf"}
    digests: set[bytes] = set()
    tasks = []
    for name, path in sorted(files_of(options.folders) if options.folders else files_of_packages()):
        kind = "urdf" if path.suffix == ".urdf" else "mjcf"
        if (
            kind not in kinds
            or not any(fnmatch.fnmatch(name, f"*{only}*") for only in options.only)
            or not path.is_file()
        ):
            continue
        text = path.read_bytes()
        digest = hashlib.sha256(text).digest()
        if digest in digests or (kind == "mjcf" and not re.search(rb"<mujoco[\s>]", text)):
            continue
        digests.add(digest)
        tasks.append((Row(name, kind, options.coordinates), path))
    return tasks


def serve(pipe: Any, seconds: float) -> None:
    """Surveys what comes through the pipe, in a process of its own, which ends where a file takes more of its time."""
    jax.config.update("jax_enable_x64", True)
    warnings.simplefilter("ignore")
    # The first model takes longer: what it needs is imported.
    with contextlib.suppress(ModuleNotFoundError):
        ph.load_model(EXAMPLE)
    with open(os.devnull, "w") as nowhere:
        os.dup2(nowhere.fileno(), 1)
        os.dup2(nowhere.fileno(), 2)
    # MuJoCo writes its log where it is started.
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        with contextlib.suppress(EOFError):
            while True:
                row, path = pipe.recv()
                began = time.process_time()
                if LIMITS:
                    signal.setitimer(signal.ITIMER_PROF, seconds)
                try:
                    survey(path, row)
                except BaseException as error:
                    row.outcome, row.reason = "crashed", describe_error(error, path)
                if LIMITS:
                    signal.setitimer(signal.ITIMER_PROF, 0.0)
                row.seconds = time.process_time() - began
                pipe.send(row)


class Worker:
    """A process that surveys one file after another, and is replaced where it doesn't answer for some seconds."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._process: Any = None
        self._pipe: Any = None

    def __call__(self, task: tuple[Row, Path]) -> Row:
        row, path = task
        if self._process is None:
            context = multiprocessing.get_context("spawn")
            self._pipe, there = context.Pipe()
            self._process = context.Process(target=serve, args=(there, self._seconds), daemon=True)
            self._process.start()
            there.close()
        try:
            self._pipe.send((row, path))
            # The processor may have other work; whatever waits for something that never comes is ended in the end.
            if self._pipe.poll(WAITS * self._seconds):
                return self._pipe.recv()
            row.outcome, row.reason = "out of time", "no answer"
        except (EOFError, OSError):
            self._process.join()
            late = LIMITS and self._process.exitcode == -signal.SIGPROF
            row.outcome, row.reason = ("out of time", "too long") if late else ("crashed", "the process ended")
        # A process that was killed leaves its copy behind.
        left = copies(self._process.pid)
        self.stop()
        for copy in path.parent.glob(f"{left}*"):
            copy.unlink()
        return row

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.join()
            self._process = None


def survey_all(tasks: list[tuple[Row, Path]], jobs: int, seconds: float, out: Path | None) -> list[Row]:
    """All rows; a line of progress on standard error for each, and the file with what is known so far."""
    workers = [Worker(seconds) for _ in range(jobs)]
    free, rows = list(workers), []

    def one(task: tuple[Row, Path]) -> Row:
        worker = free.pop()
        try:
            row = worker(task)
        finally:
            free.append(worker)
        text = ", ".join(f"{key} {value:.1e}" for key, value in row.errors.items()) or row.reason[:100]
        print(f"{row.file}: {row.outcome} {text} ({row.seconds:.1f} s)", file=sys.stderr, flush=True)
        return row

    with ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(one, tasks):
            rows.append(row)
            if out:
                out.write_text(json.dumps([dataclasses.asdict(row) for row in rows], indent=1))
    for worker in workers:
        worker.stop()
    return rows


# --- tables -----------------------------------------------------------------------------------------------------------


def group(reason: str) -> str:
    """A reason without what is particular to a file."""
    reason = re.sub(r"`[^`]*`|'[^']*'|\"[^\"]*\"", "…", reason)
    reason = re.sub(r"[-+]?\d[\d.e+-]*", "n", reason)
    return reason[:150]


def counts(rows: list[Row]) -> Table:
    table = Table("", "URDF", "MJCF", title="Files")
    of = {kind: [row for row in rows if row.kind == kind and row.outcome != "not articulated"] for kind in KINDS}

    def line(name: str, count: Any) -> None:
        table.add_row(name, *(str(count(of[kind])) for kind in KINDS))

    line("articulated", len)
    for outcome in ("loaded", "no problem", "not loaded", "out of time", "crashed"):
        line(outcome, lambda rows, outcome=outcome: sum(row.outcome == outcome for row in rows))
    line("nothing lost that moves", lambda rows: sum(row.outcome == "loaded" and not row.lost for row in rows))
    for formulation in FORMULATIONS:
        line(f"compared, {formulation}", lambda rows, f=formulation: sum(f in row.errors for row in rows))
        line(
            f"  within {AGREES:g}",
            lambda rows, f=formulation: sum(row.errors.get(f, np.inf) <= AGREES for row in rows),
        )
        line(f"  not compared, {formulation}", lambda rows, f=formulation: sum(f in row.trouble for row in rows))
    line("compared with something switched off", lambda rows: sum(bool(row.without) for row in rows))
    return table


def reasons(rows: list[Row]) -> Table:
    table = Table("outcome", "reason", "files", "one of them", title="Not loaded or not compared", show_lines=True)
    files: dict[tuple[str, str], list[str]] = {}
    for row in rows:
        if row.outcome not in ("loaded", "not articulated"):
            files.setdefault((f"{row.kind}, {row.outcome}", group(row.reason)), []).append(row.file)
        for formulation, why in row.trouble.items():
            files.setdefault((f"{row.kind}, no comparison, {formulation}", group(why)), []).append(row.file)
    for (outcome, reason), names in sorted(files.items(), key=lambda item: (item[0][0], -len(item[1]))):
        table.add_row(outcome, reason, str(len(names)), names[0])
    return table


def errors(rows: list[Row]) -> Table:
    table = Table("", "formulation", "largest relative error", "file", title="Accelerations")
    for kind in KINDS:
        for formulation in FORMULATIONS:
            matches = [row for row in rows if row.kind == kind and formulation in row.errors]
            # What isn't a number comes first.
            matches.sort(key=lambda row: np.nan_to_num(row.errors[formulation], nan=np.inf), reverse=True)
            for row in [row for row in matches if not row.errors[formulation] <= AGREES] or matches[:1]:
                table.add_row(kind, formulation, f"{row.errors[formulation]:.1e}", row.file)
    return table


def times(rows: list[Row]) -> Table:
    columns = ("seconds, median", "largest", "times the other code, median", "largest", "slowest file")
    table = Table("", "files", *columns, title="Reading")
    for kind in KINDS:
        matches = [row for row in rows if row.kind == kind and {"polhode", "other"} <= set(row.load)]
        if matches:
            seconds = [row.load["polhode"] for row in matches]
            ratios = [row.load["polhode"] / row.load["other"] for row in matches]
            figures = (f"{reduce(x):.3g}" for x in (seconds, ratios) for reduce in (np.median, np.max))
            table.add_row(kind, str(len(matches)), *figures, matches[int(np.argmax(seconds))].file)
    return table


def features(rows: list[Row]) -> Table:
    table = Table("not carried and changes the motion", "URDF", "MJCF", title="Lost")
    lost = {kind: Counter(what for row in rows if row.kind == kind for what in row.lost) for kind in KINDS}
    for what in sorted(set().union(*lost.values()), key=lambda what: -sum(lost[kind][what] for kind in KINDS)):
        table.add_row(what, *(str(lost[kind][what]) for kind in KINDS))
    return table


KINDS = ("urdf", "mjcf")


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folders", nargs="*", type=Path, help="where to look, instead of the installed packages")
    parser.add_argument("--urdf", action="store_true", help="URDF only")
    parser.add_argument("--mjcf", action="store_true", help="MJCF only")
    parser.add_argument("--only", nargs="+", default=[""], metavar="PATTERN", help="part of names, * for anything")
    parser.add_argument("--coordinates", nargs="+", default=FORMULATIONS, choices=FORMULATIONS)
    parser.add_argument("--jobs", type=int, default=1, help="processes at a time")
    parser.add_argument("--seconds", type=float, default=240.0, help="of processors, that a file may take")
    parser.add_argument("--json", type=Path, help="file for what became of every file")
    return parser.parse_args()


def main() -> None:
    options = arguments()
    rows = survey_all(select_files(options), options.jobs, options.seconds, options.json)
    console = Console(width=None if sys.stdout.isatty() else 180)
    for table in (counts(rows), reasons(rows), errors(rows), features(rows), times(rows)):
        console.print(table)


if __name__ == "__main__":
    main()
