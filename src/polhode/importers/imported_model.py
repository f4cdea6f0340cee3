"""A model read from a file, and its problem."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, cast

from polhode import checks
from polhode.assembly.assembly import Redundant
from polhode.assembly.held_coordinates import HeldQuantity
from polhode.compiler.numpy.eager import eager_numpy
from polhode.exporters import mjcf
from polhode.exporters.body_tree import Joint, Link
from polhode.exporters.joint_axes import Axis, Kind
from polhode.importers import appearance
from polhode.importers.construction import Start
from polhode.importers.joints import FileJoint
from polhode.importers.losses import NotCarried
from polhode.importers.outputs import model_outputs
from polhode.model import as_problem
from polhode.model.model import Model
from polhode.multibody.bodies import Body
from polhode.multibody.system import MultibodySystem
from polhode.printable import printable
from polhode.problem import Problem
from polhode.results.quantity import Quantity
from polhode.systems.base import Observable
from polhode.viewing.scene.robot_appearance import Machine


@dataclasses.dataclass(frozen=True, eq=False)
class ImportedModel:
    """A model read from a file by `load_model`.

    - `name`: of the robot or model in the file, otherwise that of the file.
    - `source`: the name of its source in messages.
    - `model`: the `Model`; add forces, controllers or further bodies to it before `problem` or `assemble`.
    - `links`: name of every link or body of the file → the body that carries it, with fixed joints lumped; links that
      don't move are the ground.
    - `joints`: name → `FileJoint`, all joints of the file; controllers and rotors take them.
    - `not_carried`: what affects the motion in the file's own simulator and is not in the model, with the reason.
    - `parameters`: arguments of `load_model`; `path` is the XML if that was given, and None for a specification.
    - `timestep`: step size named in the file, otherwise MuJoCo's 0.002.
    - `start`: MuJoCo's model at the initial positions and velocities.
    - `held`: joints with positions or velocities of the user, which closing loops does not change.
    - `load_time`: seconds taken to read it.
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
    held: Sequence[HeldQuantity] = ()
    load_time: float = 0.0

    def __repr__(self) -> str:
        losses = f", {len(self.not_carried)} not carried" if self.not_carried else ""
        joints = printable(", ".join(self.joints))
        return f"ImportedModel({self.name!r}, {len(self.model.bodies)} bodies, joints: {joints}{losses})"

    @eager_numpy()
    def problem(
        self,
        formulation: str | None = None,
        t1: float = 2.0,
        *,
        h: float | None = None,
        name: str | None = None,
        integrator: str | None = None,
        outputs: Callable[[MultibodySystem], Mapping[str, Observable]] | None = None,
        repair: bool = True,
        redundant: Redundant = "minimum-norm",
        t0: float = 0.0,
        joints: str = "invariant",
        hold: Sequence[str | HeldQuantity] = (),
        save_loads: bool = False,
        save: Sequence[Quantity] = (),
    ) -> Problem:
        """A complete problem: consistent initial state, outputs, recommended integrator and step.

        Loops that the initial joint positions leave open are closed by moving the bodies to the nearest positions
        that fit; joint positions and velocities that were given to `load_model` are held where the loops allow it,
        otherwise a `StartWarning` names them. Constraints that follow from others are left out, with the least
        multipliers.

        **Arguments:** those of `Model.problem`, with other defaults for some:

        - `formulation`: by default what suits, as for `Model.problem`: joint coordinates unless the model is large,
          with bodies after joints that can't carry a tree constrained.
        - `h`: the step of the file by default, and no longer than the run.
        - `name`: that of the model in the file by default.
        - `hold`: besides the joints with positions or velocities that were given to `load_model`.

        Outputs: `joint_positions` and `joint_velocities` of all joints with a scalar coordinate, in the order of the
        file, turns included; `positions` (n, 3) of the centres of mass and `quaternions` (n, 4) of the bodies in the
        order of `model.bodies`; `kinetic_energy`, armature included, and `potential_energy` of weight and springs.
        """
        span = abs(checks.number("t1", t1, "end of the run") - checks.number("t0", t0, "start of the run"))
        rigid = [body.name for body in self.model.bodies if body.kind == "rigid"]
        looks, unread = self.looks.read()
        result = as_problem.problem(
            self.model,
            as_problem.ProblemRequest(
                formulation=formulation,
                t1=t1,
                h=(min(self.timestep, span) or self.timestep) if h is None else h,
                name=self.name if name is None else name,
                integrator=integrator,
                outputs=outputs,
                repair=checks.flag("repair", repair),
                redundant=redundant,
                t0=t0,
                joints=joints,
                hold=(*self.held, *hold),
                save_loads=save_loads,
                save=save,
            ),
            as_problem.Labels(
                self.joints, rigid, looks, lambda system: model_outputs(system, list(self.joints.values()), rigid)
            ),
        )
        appearance.warn_of_missing(unread, self.source)
        # A stored run can be resumed from the file alone if all arguments are the usual ones.
        usual = (outputs, repair, redundant, t0, joints, tuple(hold), tuple(save)) == (
            None,
            True,
            "minimum-norm",
            0,
            "invariant",
            (),
            (),
        )
        parameters = {**self.parameters, "formulation": result.parameters["formulation"]}
        return dataclasses.replace(
            result,
            parameters=parameters | ({"save_loads": True} if save_loads else {}),
            origin="file" if usual and self.parameters["path"] is not None else None,
            doc=f"Read from {self.source}.",
            build_time=result.build_time + self.load_time,
        )

    def show(self, formulation: str | None = None, *, block: bool | None = None, browser: bool = True) -> Any:
        """Shows the model at its start; see `Model.show`."""
        return self.problem(formulation).show(block=block, browser=browser)

    @eager_numpy()
    def to_mjcf(self, name: str | None = None, *, strict: bool = False) -> str:
        """As `Model.to_mjcf`, with the joints as the file has them: their names, axes, order and zeros.

        - `name`: that of the file by default.
        """
        links = [_link(self, joints) for joints in self._joint_chains().values()]
        return mjcf.export(self.model, self.name if name is None else name, links, strict=strict)

    def _joint_chains(self) -> dict[int, list[FileJoint]]:
        """Joints of the file by the ids of the bodies that they carry, in their order."""
        chains: dict[int, list[FileJoint]] = {}
        for joint in self.joints.values():
            chains.setdefault(id(joint.ends[1]), []).append(joint)
        return chains


def _link(file_model: ImportedModel, joints: Sequence[FileJoint]) -> Link:
    """A chain of joints between two bodies for the exporter."""
    data = file_model.start.data
    file_joints = [
        Joint(
            joint.name,
            Axis(cast(Kind, joint.kind), data.xaxis[joint.number].copy(), data.xanchor[joint.number].copy()),
            joint.start if joint.kind in ("hinge", "slide") else 0.0,
        )
        for joint in joints
    ]
    parts = [joint.part for joint in joints if joint.part is not None]
    return Link(*joints[0].ends, file_joints, joints[0].name, parts[0] if parts else None, is_named=True)
