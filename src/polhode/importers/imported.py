"""A model read from a file, and the problem that it makes."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode._ambient import warn
from polhode.checks import shown
from polhode.execution.eager import uncompiled
from polhode.exporters import mjcf
from polhode.exporters.axes import Axis, Kind
from polhode.exporters.tree import Joint, Link
from polhode.importers import (
    ModelFileWarning,
    inventory,
    lines,
    loads,
    loops,
    mesh_files,
    reading,
    shapes,
    sources,
    stacks,
    tendons,
    urdf_shapes,
)
from polhode.importers._mujoco import mujoco
from polhode.importers.construction import Construction, Start, lumped
from polhode.importers.inventory import NotCarried
from polhode.importers.joints import FileJoint
from polhode.importers.loads import Wanted
from polhode.model import naming
from polhode.model.holding import Held, held_attitude, held_coordinate, held_pose
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.nodes_by_name import NodesByName
from polhode.multibody.system import MultibodySystem
from polhode.named.unknown import Known
from polhode.problems.base import Observable, Problem
from polhode.spaces import quaternions
from polhode.systems.base import State
from polhode.viewing import model_scene
from polhode.viewing.machine import Machine


@dataclasses.dataclass(frozen=True, eq=False)
class ImportedModel:
    """A model read from a file by `load_model`.

    - `name`: of the robot or model in the file, otherwise that of the file.
    - `source`: what it was read from, as messages call it.
    - `model`: the `Model`; add forces, controllers or further bodies to it before `problem` or `assemble`.
    - `links`: name of every link or body of the file → the body that carries it, with fixed joints lumped; links that
      don't move are the ground.
    - `joints`: name → `FileJoint`, all joints of the file; controllers and rotors take them.
    - `not_carried`: what changes the motion of the file's own simulator and the model doesn't have, with the reason.
    - `velocity_limits`: joints with a limit of velocity in a URDF, which nothing keeps.
    - `parameters`: what the file was read with; `path` is the XML if that was given, and None for a specification.
    - `timestep`: step size named in the file, otherwise MuJoCo's 0.002.
    - `start`: MuJoCo's model of it at the initial positions and velocities.
    - `held`: joints with positions or velocities that the user has given, which closing loops leaves as they are.
    - `load_time`: seconds that reading it has taken.
    - `looks`: the shapes of the file and where they are on the bodies.
    """

    name: str
    source: str
    model: Model
    links: Mapping[str, Body]
    joints: Mapping[str, FileJoint]
    not_carried: list[NotCarried]
    parameters: Mapping[str, Any]
    timestep: float
    start: Start
    looks: Machine
    held: Sequence[Held] = ()
    load_time: float = 0.0
    velocity_limits: Sequence[str] = ()

    def __repr__(self) -> str:
        left = f", {len(self.not_carried)} not carried" if self.not_carried else ""
        return f"ImportedModel({self.name!r}, {len(self.model.bodies)} bodies, joints: {', '.join(self.joints)}{left})"

    @uncompiled()
    def problem(self, formulation: str | None = None, t1: float = 2.0) -> Problem:
        """A complete problem: consistent initial state, outputs, recommended integrator and step.

        Loops that the initial joint positions leave open are closed by moving the bodies to the nearest positions
        that fit; joint positions and velocities that were given to `load_model` are held where the loops allow it,
        otherwise a `StartWarning` names them. Constraints that follow from others are left out, with the least
        multipliers.

        `formulation`: by default what suits, as for `Model.problem`: joint coordinates unless the model is large, with
        bodies behind joints that can't carry a tree constrained.
        Outputs: `joint_positions` and `joint_velocities` of all joints with a scalar coordinate, in the order of the
        file; angles count turns in joint coordinates and are in (-π, π] otherwise; `positions` (n, 3) of the centres of
        mass and `quaternions` (n, 4) of the bodies in the order of `model.bodies`.
        """
        problem = self.model.problem(
            formulation,
            t1=t1,
            h=min(self.timestep, t1),
            name=self.name,
            repair=True,
            redundant="minimum-norm",
            hold=self.held,
        )
        rigid = [body.name for body in self.model.bodies if body.kind == "rigid"]
        looks, unread = self.looks.read()
        _warn_of(unread, self.source)
        return dataclasses.replace(
            problem,
            parameters={**self.parameters, "formulation": problem.parameters["formulation"]},
            origin=None if self.parameters["path"] is None else "file",
            doc=f"Read from {self.source}.",
            outputs=_outputs(cast(MultibodySystem, problem.system), self, rigid),
            scene=model_scene.drawn(model_scene.described(self.model, rigid, looks)),
            build_time=problem.build_time + self.load_time,
            named=dataclasses.replace(
                naming.named(self.model, cast(MultibodySystem, problem.system), self.joints, rigid), outputs=True
            ),
        )

    @uncompiled()
    def to_mjcf(self, name: str | None = None, *, strict: bool = False) -> str:
        """As `Model.to_mjcf`, with the joints as the file has them: their names, axes, order and zeros.

        - `name`: that of the file by default.
        """
        links = [_link(self, joints) for joints in self._stacks().values()]
        return mjcf.written(self.model, self.name if name is None else name, links, strict=strict)

    def _stacks(self) -> dict[int, list[FileJoint]]:
        """Joints of the file by the bodies of the model that they carry, in their order."""
        found: dict[int, list[FileJoint]] = {}
        for joint in self.joints.values():
            found.setdefault(id(joint.ends[1]), []).append(joint)
        return found


def _link(imported: ImportedModel, joints: Sequence[FileJoint]) -> Link:
    """Joints in a row between two bodies, as the exporter takes them."""
    data = imported.start.data
    written = [
        Joint(
            joint.name,
            Axis(cast(Kind, joint.kind), data.xaxis[joint.number].copy(), data.xanchor[joint.number].copy()),
            joint.start if joint.kind in ("hinge", "slide") else 0.0,
        )
        for joint in joints
    ]
    parts = [joint.part for joint in joints if joint.part is not None]
    return Link(*joints[0].ends, written, joints[0].name, parts[0] if parts else None, named=True)


@uncompiled()
def load(
    path: Any,
    positions: Mapping[str, Any] | None,
    velocities: Mapping[str, Any] | None,
    keyframe: str | int | None,
    floating: bool,
    check_inertia: bool,
    wanted: Wanted,
    mesh_paths: Any = None,
) -> ImportedModel:
    """See `polhode.load_model`."""
    began = time.perf_counter()
    for name, given in (("positions", positions), ("velocities", velocities), ("controls", wanted.controls)):
        if given is not None and not isinstance(given, Mapping):
            raise ValueError(f"`{name}` must be a mapping from names to values, got {shown(given)}.")
    source = sources.source(path)
    paths = mesh_files.folders(mesh_paths)
    finder = mesh_files.Finder(None if source.path is None else source.path.parent, paths)
    compiled = reading.compiled(source, floating, check_inertia, finder)
    try:
        _check_moving(source, compiled.model)
        start = reading.initial(compiled, keyframe, positions or {}, velocities or {})
        construction = lumped(start, check_inertia)
        records = _join(construction)
        robot = source.root if source.is_robot else None
        lost = [] if robot is None else inventory.of_urdf(robot)
        lost += loops.add_equalities(construction, records)
        lost += loads.add_passive(construction, records, wanted)
        lost += lines.add_tendons(construction)
        lost += tendons.add_fixed(construction, {record.number: record for record in records}, wanted)
        lost += loads.add_actuators(construction, records, wanted)
        lost += inventory.of_compiled(start)
        looks, missing = _looks(source, construction, compiled, finder)
    except ValueError as error:
        raise ValueError(f"{source.called}: {error}") from error
    given = {
        "path": source.given,
        "positions": dict(positions or {}),
        "velocities": dict(velocities or {}),
        "keyframe": keyframe,
        "floating": floating,
        "check_inertia": check_inertia,
        "controls": {name: "a function" if callable(u) else u for name, u in wanted.controls.items()},
        "limits": wanted.limits,
        "stick_velocity": wanted.stick_velocity,
        "mesh_paths": [str(folder) for folder in paths],
    }
    _warn_of(missing, source.called)
    kinds = mujoco.mjtObj
    links = {start.name(kinds.mjOBJ_BODY, i): construction.body(i) for i in range(compiled.model.nbody)}
    return ImportedModel(
        name=source.name,
        source=source.called,
        model=construction.model,
        links=Known("link or body of the file", links),
        joints=Known("joint of the file", {record.name: record for record in records}),
        not_carried=lost,
        parameters=given,
        timestep=float(compiled.model.opt.timestep),
        start=start,
        held=_held(records, positions or {}, velocities or {}),
        load_time=time.perf_counter() - began,
        looks=looks,
        velocity_limits=() if robot is None else inventory.velocity_limits(robot),
    )


def _looks(
    source: sources.Source, construction: Construction, compiled: reading.Compiled, finder: mesh_files.Finder
) -> tuple[Machine, list[str]]:
    """How its bodies look, and what can't be drawn, with the reason."""
    if source.root is None or not source.is_robot:
        found, missing = shapes.of_compiled(construction, compiled.unseen), list(compiled.withheld)
    else:
        found, missing = urdf_shapes.of_robot(source.root, construction, finder)
    return shapes.machine(construction, found), missing


def _warn_of(missing: Sequence[str], called: str) -> None:
    if missing:
        warn(
            f"{called}: shapes that are not drawn: {'; '.join(missing)}. The motion doesn't depend on them. Files are "
            "looked for in the folder of the model file, in its package, and in those of mesh_paths=[…].",
            ModelFileWarning,
        )


def _check_moving(source: sources.Source, compiled: Any) -> None:
    """Raises ValueError for what stands still, with what lets it go."""
    if np.any(compiled.body_jntnum):
        return
    remedy = " Give a body a joint, or a <freejoint/>."
    if source.is_robot:
        loose = compiled.nbody > 1
        remedy = " Read it with floating=True, which lets its root link go." if loose else " It has no link to let go."
    raise ValueError(f"There are no moving bodies: nothing is joined by anything but fixed joints.{remedy}")


def _held(records: Sequence[FileJoint], positions: Mapping[str, Any], velocities: Mapping[str, Any]) -> list[Held]:
    """The user's values for joints of the file, in the order in which they were given."""
    by_name = {record.name: record for record in records}
    found = []
    for name in dict.fromkeys((*positions, *velocities)):
        record = by_name[name]
        given = {"position": name in positions, "velocity": name in velocities}
        if record.relative is not None:
            found.append(held_coordinate(name, record.relative, record.ends, **given))
        elif record.kind == "ball":
            found.append(held_attitude(name, record.ends, **given))
        elif record.kind == "free":
            found.append(held_pose(name, record.ends, **given))
    return found


def _join(construction: Construction) -> list[FileJoint]:
    """Adds the joints of all bodies; returns all joints of the file."""
    found: list[FileJoint] = []
    for body in construction.carriers:
        if body == 0:
            continue
        for stack in stacks.pieces(construction, stacks.read(construction, body)):
            found += _add_joints(construction, stack)
    return found


def _force_limits(m: Any, joint: int) -> tuple[float, float]:
    """Limits of the effort along a joint, as the file has them."""
    lower, upper = m.jnt_actfrcrange[joint] if m.jnt_actfrclimited[joint] else (-np.inf, np.inf)
    return float(lower), float(upper)


def _add_joints(construction: Construction, stack: stacks.Stack) -> list[FileJoint]:
    names = [construction.start.name(mujoco.mjtObj.mjOBJ_JOINT, j) for j in stack.numbers]
    part, coordinates = stacks.joined(stack, construction.free_name(" + ".join(names), "joint"))
    if part is not None:
        construction.model.add(part)
    return [
        FileJoint(
            name=name,
            kind=stacks.NAMES[kind],
            number=number,
            ends=(stack.parent, stack.child),
            part=None if kind == stacks.SLIDE and stack.opposed else part,
            relative=coordinates.get(number),
            start=value,
            place=stacks.called(part, place),
            force_limits=_force_limits(construction.start.compiled, number),
        )
        for place, (number, name, kind, value) in enumerate(
            zip(stack.numbers, names, stack.kinds, stack.values, strict=True)
        )
    ]


def _outputs(system: MultibodySystem, imported: ImportedModel, rigid: Sequence[str]) -> dict[str, Observable]:
    measured = [record for record in imported.joints.values() if record.measured]
    rows = np.array([system.names.index(name) for name in rigid])

    def each(read: Callable[[FileJoint, Any, NodesByName], Array]) -> Observable:
        def values(t: Array, state: State) -> Array:
            q, v = state
            where = NodesByName(system, system.motion(q, v))
            return jnp.stack([read(joint, q, where) for joint in measured])

        return values

    def ends(joint: FileJoint) -> tuple[str, ...]:
        return tuple(body.name for body in joint.bodies)

    def position(joint: FileJoint, q: Any, where: NodesByName) -> Array:
        counted = joint.counted(system, q)
        return joint.coordinate().difference(where.poses(ends(joint)), 0.0) if counted is None else counted

    def velocity(joint: FileJoint, q: Any, where: NodesByName) -> Array:
        del q
        return joint.coordinate().rate(where.poses(ends(joint)), where.twists(ends(joint)))

    found: dict[str, Observable] = {}
    if measured:
        found["joint_positions"] = each(position)
        found["joint_velocities"] = each(velocity)
    found["positions"] = lambda t, state: system.poses_in(state).x[rows]
    found["quaternions"] = lambda t, state: jax.vmap(quaternions.from_matrix)(system.poses_in(state).R[rows])
    return found
