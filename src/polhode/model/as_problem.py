"""A model as a problem: coordinates, method, named outputs, scene, and a function that rebuilds it."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax

from polhode import checks, integrators
from polhode.assembly import default_choice, name_table
from polhode.assembly.assembly import AssembledSystem, Redundant
from polhode.assembly.held_coordinates import HeldQuantity
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.joints.named_coordinates import AbstractMeasuredPair
from polhode.multibody.system import MultibodySystem
from polhode.problem import Choice, Problem
from polhode.results.joints import JointLoads
from polhode.results.quantity import Quantity
from polhode.systems.base import Observable, State
from polhode.viewing.scene import model_scene
from polhode.viewing.scene.robot_appearance import Machine
from polhode.viewing.scene.scene import Scene

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


class ProblemRequest(NamedTuple):
    """The arguments of `Model.problem`."""

    formulation: str | None
    t1: Any
    h: Any
    name: str
    integrator: str | None
    outputs: Callable[[MultibodySystem], Mapping[str, Observable]] | None
    repair: bool
    redundant: Redundant
    t0: Any
    joints: str
    hold: Sequence[str | HeldQuantity]
    save_loads: bool
    save: Sequence[Quantity]

    def span(self) -> tuple[float, float, float]:
        """Start, end and step. Raises ValueError for invalid values."""
        if self.integrator is not None:
            checks.choice("integrator", self.integrator, integrators.names())
        end, step = checks.number("t1", self.t1, "end of the run"), checks.number("h", self.h, "step of the run")
        if not step > 0:
            raise ValueError(f"`h` must be positive, got {step:g}. Set the direction of time by t1.")
        begin = checks.number("t0", self.t0, "start of the run")
        if end == begin:
            raise ValueError(f"`t1` must differ from t0 = {begin:g}; the span is empty.")
        checks.word("name", self.name, "of the problem")
        return begin, end, step

    def assemble(self, model: ModelParts, formulation: str) -> tuple[AssembledSystem, State]:
        """The model in these coordinates."""
        return model.assemble(
            formulation,
            repair=self.repair,
            redundant=self.redundant,
            t0=self.t0,
            joints=self.joints,
            hold=self.hold,
        )


@dataclasses.dataclass(frozen=True)
class Labels:
    """Names and appearance of results that come from elsewhere than the model, such as a file.

    - `joints`: by name. - `bodies`: in the order of rows of outputs. None for those of the model.
    - `looks`: of the bodies.
    - `outputs`: function of the system that returns the outputs in place of its own.
    """

    joints: Mapping[str, AbstractMeasuredPair] | None = None
    bodies: Sequence[str] | None = None
    looks: Machine | None = None
    outputs: Callable[[MultibodySystem], Mapping[str, Observable]] | None = None


_OF_THE_MODEL = Labels()


@eager_numpy()
def problem(model: ModelParts, request: ProblemRequest, labels: Labels = _OF_THE_MODEL) -> Problem:
    """The problem of a model. Raises ValueError as `Model.problem` does."""
    start_time = time.perf_counter()
    begin, end, step = request.span()
    own = model.parameters
    if request.formulation is None:
        system, state0, formulation, because = default_choice.assemble_default(
            model, lambda form: request.assemble(model, form), request.integrator, begin, step
        )
    else:
        formulation, because = request.formulation, ""
        system, state0 = request.assemble(model, formulation)
    method, why = (
        (request.integrator, "") if request.integrator else default_choice.method_for(system, state0, begin, step)
    )
    if own.keys() & {"formulation", "joints"}:
        raise ValueError("Parameters of a model can't be called 'formulation' or 'joints'; choose other names.")
    base = _in_coordinates(system)
    names = name_table.build_name_table(model, base, labels.joints, labels.bodies)
    shown_bodies = base.shown if labels.bodies is None else labels.bodies
    drawable = checks.is_concrete(model.gravity, [(b.mass, b.inertia, b.x, b.R) for b in model.bodies], state0)
    saves_loads = checks.flag("save_loads", request.save_loads)
    choices = {"formulation": formulation, **({"joints": request.joints} if formulation == "livens" else {})}
    return Problem(
        name=request.name,
        system=system,
        state0=state0,
        t_span=(begin, end),
        parameters={**choices, **own},
        doc=f"A model of {len(model.bodies)} bodies.",
        outputs=_outputs(system, request.outputs, names, saves_loads, request.save, labels),
        invariants=system.invariants(),
        reference={},
        integrator=method,
        h=step,
        scene=_scene(model, shown_bodies, labels.looks) if drawable else None,
        choice=Choice(because, why and f"`{method}`: {why}"),
        build_time=time.perf_counter() - start_time,
        named=dataclasses.replace(names, outputs=True),
        build=_builder(model, request._replace(formulation=formulation, integrator=method), system.dropped),
    )


def _scene(model: ModelParts, bodies: Sequence[str], looks: Machine | None) -> Scene | None:
    """The scene of the model; None if JAX traces numbers that it needs."""
    try:
        return model_scene.from_dict(model_scene.to_dict(model, bodies, looks))
    except jax.errors.JAXTypeError:
        return None


def _builder(model: ModelParts, request: ProblemRequest, dropped: Any) -> Callable[..., Problem]:
    """A function that rebuilds the problem with other parameters; `dropped`: constraints left out before."""

    def build(**changed: Any) -> Problem:
        form, how = changed.pop("formulation"), changed.pop("joints", "invariant")
        # Inside JAX's transformations redundant constraints can't be determined again.
        redundancy = (dropped or request.redundant) if form == request.formulation else request.redundant
        new_model = model.replace(**changed)
        new_problem = problem(new_model, request._replace(formulation=form, joints=how, redundant=redundancy))
        # Traced values are not parameters of the new model.
        return dataclasses.replace(new_problem, parameters={**new_problem.parameters, **changed}, build=build)

    return build


def _in_coordinates(system: AssembledSystem) -> MultibodySystem:
    """The system whose states are (q, v)."""
    return system if isinstance(system, MultibodySystem) else system.base


def _outputs(
    system: AssembledSystem,
    more: Callable[[MultibodySystem], Mapping[str, Observable]] | None,
    names: name_table.NameTable,
    loads: bool,
    save: Sequence[Quantity],
    labels: Labels,
) -> dict[str, Observable]:
    """Outputs of the system or of `labels`, its joint coordinates, and those of the user."""
    base = _in_coordinates(system)
    if base.has_contacts and (loads or any(getattr(each, "computation", None) is JointLoads for each in save)):
        raise ValueError(
            "Loads of joints can't be saved with every frame where bodies touch: they follow from the contact forces "
            "of steps, which are in the multipliers of the run. Leave `save_loads` and `save` of these out, and read "
            "`run.joints[…].force` afterwards; of a store with `polhode.load(path, problem=problem)`."
        )
    own = names.readings.observables(base, loads=loads)
    if loads:
        own |= names.force_readings.observables(base)
    if labels.outputs is not None:
        own |= labels.outputs(base)
    usual = system.outputs() if labels.outputs is None else {}
    for quantity in save:
        if not isinstance(quantity, Quantity):
            raise ValueError(
                "`save` takes quantities, such as `polhode.results.BodyResults.kinetic_energy`, got "
                f"{short_repr(quantity)}."
            )
        own |= {name: f for name, f in quantity.observables(base, names).items() if name not in usual}
    outputs = {**usual, **(own if isinstance(system, MultibodySystem) else system.convert_observables(own))}
    if more is None:
        return outputs
    useful = callable(more) and not isinstance(more, type)
    user_outputs = more(base) if useful else more
    if not useful or not isinstance(user_outputs, Mapping):
        raise ValueError(
            f"`outputs` must be a function of the system that returns a mapping from names to functions (t, state), "
            f"got {short_repr(user_outputs)}."
        )
    for name, output in user_outputs.items():
        if name in outputs:
            raise ValueError(f"The system has an output {short_repr(name)} of its own; give yours another name.")
        if not isinstance(name, str) or not callable(output):
            raise ValueError(
                f"Output {short_repr(name)} must be a function (t, state) → array under a name, got "
                f"{short_repr(output)}."
            )
    return {
        **outputs,
        **(user_outputs if isinstance(system, MultibodySystem) else system.convert_observables(user_outputs)),
    }
