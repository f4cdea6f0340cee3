"""A model as a problem: with coordinates and a method chosen, outputs by name, a scene, and a way to build it anew."""

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
from polhode.systems.base import Observable, State
from polhode.viewing.scene import model_scene
from polhode.viewing.scene.robot_appearance import Machine
from polhode.viewing.scene.scene import Scene

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


class ProblemRequest(NamedTuple):
    """A problem as it was asked for: the arguments of `Model.problem`."""

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

    def span(self) -> tuple[float, float, float]:
        """Start, end and step. Raises ValueError for what makes no sense."""
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

    def assembled(self, model: ModelParts, formulation: str) -> tuple[AssembledSystem, State]:
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
    """Names and looks that results have from elsewhere than the model, such as a file.

    - `joints`: by name; None for those of the model. - `bodies`: in the order of rows of outputs, likewise.
    - `looks`: of the bodies.
    - `outputs`: function of the system that returns the outputs in place of its own.
    """

    joints: Mapping[str, AbstractMeasuredPair] | None = None
    bodies: Sequence[str] | None = None
    looks: Machine | None = None
    outputs: Callable[[MultibodySystem], Mapping[str, Observable]] | None = None


_OF_THE_MODEL = Labels()


@eager_numpy()
def problem(model: ModelParts, asked: ProblemRequest, labels: Labels = _OF_THE_MODEL) -> Problem:
    """The problem of a model. Raises ValueError as `Model.problem` does."""
    started = time.perf_counter()
    begin, end, step = asked.span()
    own = model.parameters
    if asked.formulation is None:
        system, state0, formulation, because = default_choice.assemble_default(
            model, lambda form: asked.assembled(model, form), asked.integrator, begin
        )
    else:
        formulation, because = asked.formulation, ""
        system, state0 = asked.assembled(model, formulation)
    method, why = (asked.integrator, "") if asked.integrator else default_choice.method_for(system, state0, begin, step)
    if own.keys() & {"formulation", "joints"}:
        raise ValueError("Parameters of a model can't be called 'formulation' or 'joints'; choose other names.")
    seen = _in_coordinates(system)
    called = name_table.build_name_table(model, seen, labels.joints, labels.bodies)
    shown_bodies = seen.shown if labels.bodies is None else labels.bodies
    known = checks.is_concrete(model.gravity, [(b.mass, b.inertia, b.x, b.R) for b in model.bodies], state0)
    saves_loads = checks.flag("save_loads", asked.save_loads)
    given = {"formulation": formulation, **({"joints": asked.joints} if formulation == "livens" else {})}
    return Problem(
        name=asked.name,
        system=system,
        state0=state0,
        t_span=(begin, end),
        parameters={**given, **own},
        doc=f"A model of {len(model.bodies)} bodies.",
        outputs=_outputs(system, asked.outputs, called, saves_loads, labels),
        invariants=system.invariants(),
        reference={},
        integrator=method,
        h=step,
        scene=_scene(model, shown_bodies, labels.looks) if known else None,
        choice=Choice(because, why and f"`{method}`: {why}"),
        build_time=time.perf_counter() - started,
        named=dataclasses.replace(called, outputs=True),
        build=_builder(model, asked._replace(formulation=formulation, integrator=method), system.dropped),
    )


def _scene(model: ModelParts, shown: Sequence[str], looks: Machine | None) -> Scene | None:
    """How the model is drawn; None where JAX traces numbers that drawing needs."""
    try:
        return model_scene.drawn(model_scene.described(model, shown, looks))
    except jax.errors.JAXTypeError:
        return None


def _builder(model: ModelParts, asked: ProblemRequest, dropped: Any) -> Callable[..., Problem]:
    """Makes the problem anew with other values of parameters; `dropped`: constraints left out before."""

    def build(**changed: Any) -> Problem:
        form, how = changed.pop("formulation"), changed.pop("joints", "invariant")
        # Inside of JAX's transformations it can't be decided anew what is redundant.
        again = (dropped or asked.redundant) if form == asked.formulation else asked.redundant
        made = model.replace(**changed)
        found = problem(made, asked._replace(formulation=form, joints=how, redundant=again))
        # Traced values are known to no model.
        return dataclasses.replace(found, parameters={**found.parameters, **changed}, build=build)

    return build


def _in_coordinates(system: AssembledSystem) -> MultibodySystem:
    """The system whose states are (q, v)."""
    return system if isinstance(system, MultibodySystem) else system.base


def _outputs(
    system: AssembledSystem,
    more: Callable[[MultibodySystem], Mapping[str, Observable]] | None,
    called: name_table.NameTable,
    loads: bool,
    labels: Labels,
) -> dict[str, Observable]:
    """Outputs of the system or in place of them, its joint coordinates, and those that a user adds."""
    seen = _in_coordinates(system)
    own = called.readings.observables(seen, loads=loads)
    if loads:
        own |= called.force_readings.observables(seen)
    if labels.outputs is not None:
        own |= labels.outputs(seen)
    usual = system.outputs() if labels.outputs is None else {}
    known = {**usual, **(own if isinstance(system, MultibodySystem) else system.observed(own))}
    if more is None:
        return known
    useful = callable(more) and not isinstance(more, type)
    given = more(seen) if useful else more
    if not useful or not isinstance(given, Mapping):
        raise ValueError(
            f"`outputs` must be a function of the system that returns a mapping from names to functions (t, state), "
            f"got {short_repr(given)}."
        )
    for name, output in given.items():
        if name in known:
            raise ValueError(f"The system has an output {short_repr(name)} of its own; give yours another name.")
        if not isinstance(name, str) or not callable(output):
            raise ValueError(
                f"Output {short_repr(name)} must be a function (t, state) → array under a name, got "
                f"{short_repr(output)}."
            )
    return {**known, **(given if isinstance(system, MultibodySystem) else system.observed(given))}
