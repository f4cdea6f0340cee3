"""Assembly of a model: equations of motion in chosen coordinates, and a consistent initial state."""

from __future__ import annotations

import collections
import dataclasses
import itertools
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np

from polhode import checks
from polhode.assembly.absolute_assembly import AbsoluteLayout
from polhode.assembly.compliant_contacts import compliant_contacts
from polhode.assembly.compliant_friction import build_friction, has_exact_friction
from polhode.assembly.contact_choice import build_contact_set
from polhode.assembly.coordinate_layout import AbstractLayout, PlacedElement
from polhode.assembly.counted_angles import TurnRegister
from polhode.assembly.element_groups import group_forces, group_joints
from polhode.assembly.held_coordinates import HeldQuantity, repair_holding, resolve_held
from polhode.assembly.joint_contacts import (
    build_joint_contacts,
    build_pivots,
    check_bearings,
    check_impacts,
    check_pivots,
    has_joint_contacts,
)
from polhode.assembly.mixed_assembly import joint_layout
from polhode.assembly.rod_contacts import rod_pairs, rod_shape_contacts, rods_touch
from polhode.assembly.rule_table import has_rigid_contacts
from polhode.assembly.spanning_tree import has_loops
from polhode.assembly.tree_assembly import MINIMAL
from polhode.checks import short_repr
from polhode.compiler.placement import with_default_device
from polhode.flexible.flexible_body import SUPPORTED_FORMULATIONS, FlexibleBody
from polhode.forces.joint_forces import is_rigid
from polhode.jax_context import check_environment
from polhode.multibody import consistent_start, formulations, redundant_constraints
from polhode.multibody.bodies import Body
from polhode.multibody.conversions import livens, separable
from polhode.multibody.conversions.livens import JOINTS
from polhode.multibody.conversions.livens_joints import in_first_frame
from polhode.multibody.conversions.separable import SEPARABLE, SeparableMultibody
from polhode.multibody.coordinates.absolute import AbsoluteCoordinates
from polhode.multibody.light_bodies import with_pivoting_solver
from polhode.multibody.mechanism.mechanism import Mechanism
from polhode.multibody.system import MultibodySystem
from polhode.systems.base import State

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


Redundant = Literal["error", "minimum-norm"] | Mapping[str, tuple[int, ...]]
AssembledSystem = MultibodySystem | livens.LivensMultibody | SeparableMultibody


@with_default_device
def assemble(
    model: ModelParts,
    formulation: str,
    *,
    repair: bool,
    redundant: Redundant,
    t0: float,
    joints: str,
    hold: Sequence[str | HeldQuantity] = (),
) -> tuple[AssembledSystem, State]:
    """System and initial state of a model; see `Model.assemble`."""
    if hold and not repair:
        raise ValueError("`hold` says what `repair=True` must not change; without that nothing is changed.")
    start = Start(repair, redundant, t0, resolve_held(model, hold))
    check_environment()
    checks.choice("joints", joints, JOINTS)
    checks.flag("repair", repair)
    checks.choice("formulation", formulation, (*formulations.FORMULATIONS, MINIMAL, livens.LIVENS, SEPARABLE))
    if formulation != livens.LIVENS and joints != "invariant":
        raise ValueError(
            f"`joints` is for formulation='livens'; with {short_repr(formulation)} leave it out, got "
            f"{short_repr(joints)}."
        )
    _refuse_flexible(model, formulation)
    _refuse_contacts(model, formulation)
    if formulation == SEPARABLE:
        base, state = _in_coordinates(model, "S3xR3", start)
        assert isinstance(base.coordinates, AbsoluteCoordinates)
        return separable.build(base, state)
    if formulation != livens.LIVENS:
        return _in_coordinates(model, formulation, start)
    convert = in_first_frame if joints == "invariant" else None
    base, state = _in_coordinates(model, "S3xR3", start, convert)
    assert isinstance(base.coordinates, AbsoluteCoordinates)
    return livens.build(base, state, joints)


def _refuse_flexible(model: ModelParts, formulation: str) -> None:
    """Raises ValueError if these coordinates don't support the flexible bodies of the model."""
    flexible = [body for body in model.bodies if body.kind == "flexible"]
    if flexible and formulation in (livens.LIVENS, SEPARABLE):
        raise ValueError(
            f"{flexible[0]!r} deforms, and {formulation!r} has no coordinates for that. {SUPPORTED_FORMULATIONS}"
        )


def _refuse_contacts(model: ModelParts, formulation: str) -> None:
    """Raises ValueError if these coordinates have no contacts, and the model has."""
    if formulation in (livens.LIVENS, SEPARABLE) and has_joint_contacts(model):
        raise ValueError(
            f"Joints of the model have rigid stops or dry friction, and {formulation!r} takes elastic stops, with a "
            "`stiffness`, and smooth friction, with a `stick_velocity`. Take joint or absolute coordinates on Lie "
            "groups, such as 'minimal' or 'SE3'."
        )
    if formulation in (livens.LIVENS, SEPARABLE) and rods_touch(model):
        raise ValueError(
            f"Rods of the model touch rods, and {short_repr(formulation)} takes their contacts with bodies only. Take "
            "absolute coordinates on Lie groups, such as 'SE3'."
        )
    if formulation in (livens.LIVENS, SEPARABLE) and has_exact_friction(model):
        raise ValueError(
            f"Friction of compliant contacts is exact, and {formulation!r} takes regularised friction only: give "
            "`slip_speed`, over which it builds up. Or take joint or absolute coordinates on Lie groups, such as "
            "'minimal' or 'SE3'."
        )
    if formulation in (livens.LIVENS, SEPARABLE) and has_rigid_contacts(model):
        raise ValueError(
            f"The model has contacts, and {formulation!r} takes compliant ones only, law='compliant'. Take joint or "
            "absolute coordinates on Lie groups, such as 'minimal' or 'SE3'."
        )


class Start(NamedTuple):
    """Options of the initial state: see `Model.assemble`."""

    repair: bool
    redundant: Redundant
    t0: float
    held: tuple[HeldQuantity, ...]


def _in_coordinates(
    model: ModelParts,
    formulation: str,
    options: Start,
    convert: Callable[[MultibodySystem, State], MultibodySystem] | None = None,
) -> tuple[MultibodySystem, State]:
    repair, redundant, t0, _ = options
    if not model.bodies:
        raise ValueError("The model has no bodies; add some with `add_body` before `assemble`.")
    if redundant not in ("error", "minimum-norm") and not isinstance(redundant, Mapping):
        raise ValueError(
            f"`redundant` must be 'error', 'minimum-norm' or the `dropped` of a system, got {short_repr(redundant)}."
        )
    t0 = checks.number("t0", t0, "initial time") if checks.is_concrete(t0) else t0
    layout = joint_layout(model, repair) if formulation == MINIMAL else AbsoluteLayout(model.bodies, formulation)
    acting = [(name, part) for name, part in model.parts if not is_rigid(part)]
    parts = (*acting, *compliant_contacts(model), *rod_shape_contacts(model))
    parts_with_elements = [(name, part, part.initial_element()) for name, part in parts]
    elements = layout.remaining_elements(parts_with_elements)
    try:
        state = layout.start()
    except consistent_start.InconsistentStart as error:
        _check_all_joints(model, parts_with_elements, t0, error.own)
        raise

    def build(components: Mapping[str, tuple[int, ...]]) -> MultibodySystem:
        base = _build(model, layout, elements, components, t0)
        return base if convert is None else convert(base, base.with_initial_turns(state))

    system = build({})
    state = system.with_initial_turns(state)
    if isinstance(redundant, Mapping):
        _check_dropped(system, redundant)
    if not checks.is_concrete(system, state):
        if repair or redundant == "minimum-norm":
            raise ValueError(
                "Inside jit, grad or vmap neither `repair=True` nor redundant='minimum-norm' can be decided. Assemble "
                "once outside, then pass the consistent state, and `redundant=system.dropped`."
            )
        return (build(redundant) if isinstance(redundant, Mapping) else system).solvable(), state
    if repair:
        state = _repair(system, layout, options, state)
        state = system.count_turns(state, state, 0.0)
    consistent_start.check_start(system, system.labels, t0, state)
    dropped = redundant if isinstance(redundant, Mapping) else _dependent(system, t0, state, redundant == "error")
    if not dropped and not isinstance(redundant, Mapping):
        return with_pivoting_solver(system.solvable(), t0, state), state
    reduced = build(dropped)
    if isinstance(redundant, Mapping):
        _check_independent(system, reduced, t0, state)
    if not dropped:
        return with_pivoting_solver(system.solvable(), t0, state), state
    # Redundant constraints hold to round-off only if the start satisfies all constraints to round-off.
    state = consistent_start.polish_state(system, system.labels, t0, state)
    return with_pivoting_solver(dataclasses.replace(reduced, complete=system).solvable(), t0, state), state


def _check_all_joints(model: ModelParts, elements: Sequence[PlacedElement], t0: float, more: str) -> None:
    """Raises UnfitStart with all violations, where joint coordinates stop at the first; `more` is prepended."""
    layout = AbsoluteLayout(model.bodies, "SO3xR3")
    system = _build(model, layout, elements, {}, t0)
    state = system.with_initial_turns(layout.start())
    faults = (
        consistent_start.start_faults(system, system.labels, t0, state) if checks.is_concrete(system, state) else ""
    )
    if faults:
        raise consistent_start.InconsistentStart(f"{more} {faults}".strip())


def _repair(system: MultibodySystem, layout: AbstractLayout, options: Start, state: State) -> State:
    """The nearest consistent state that keeps the held quantities; warns of those that can't be kept."""
    if not system.m and not system.coordinates.has_dependent_coordinates:
        # The joints of an open tree are consistent, unless some coordinates depend on others.
        return state

    def system_holding(quantities: Sequence[HeldQuantity]) -> MultibodySystem:
        extra, labels = group_joints(
            layout, [(str(h.name), h, h.element) for h in quantities], {}, None, len(system.labels)
        )
        return system.with_joints((*system.mechanism.joints, *extra), (*system.labels, *labels))

    return repair_holding(system, system_holding, options.t0, state, options.held)


def _build(
    model: ModelParts,
    layout: AbstractLayout,
    elements: Sequence[PlacedElement],
    dropped: Mapping[str, tuple[int, ...]],
    t0: Any,
) -> MultibodySystem:
    register = TurnRegister(model, layout, t0)
    joints, labels = group_joints(layout, elements, dropped, register)
    forces = group_forces(layout, elements, register)
    joint_contacts, pivots = build_joint_contacts(model, layout, register), build_pivots(model, layout)
    shape_contacts, compliant_friction = build_contact_set(model, layout), build_friction(layout, elements)
    check_pivots(pivots, shape_contacts)
    check_impacts(joint_contacts, shape_contacts)
    counter = register.counter()
    turns = 0 if counter is None else counter.count
    coordinates, mechanism, labels = layout.finish(
        Mechanism(joints, forces, model.gravity, rod_pairs(model, layout)), labels, turns
    )
    check_bearings(joint_contacts, labels, list(dropped))
    return MultibodySystem(
        mechanism=mechanism,
        coordinates=coordinates,
        labels=labels,
        redundant=tuple(sorted(dropped.items())),
        complete=None,
        counter=counter,
        order=tuple(itertools.chain.from_iterable(map(_names, model.bodies))),
        loops=has_loops(model),
        conversion_types=layout.conversion_types,
        shape_contacts=shape_contacts,
        joint_contacts=joint_contacts,
        pivot_contacts=pivots,
        compliant_friction=compliant_friction,
    )


def _check_dropped(system: MultibodySystem, dropped: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ValueError unless `dropped` names existing components of constraints."""
    sizes = collections.Counter(system.labels)
    for name, components in dropped.items():
        if name not in sizes:
            names = ", ".join(f"`{joint}`" for joint in sizes) or "none"
            raise ValueError(
                f"`redundant` names {short_repr(name)}, which has no constraints in these coordinates; {names} have."
            )
        numbers = list(components) if isinstance(components, Iterable) else [components]
        whole = all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in numbers)
        if not whole or len({*numbers}) < len(numbers) or not all(0 <= i < sizes[name] for i in numbers):
            raise ValueError(
                f"`redundant` must name components of `{name}` once, as whole numbers from 0 to {sizes[name] - 1}, got "
                f"{short_repr(components)}."
            )


def _check_independent(system: MultibodySystem, reduced: MultibodySystem, t: float, state: State) -> None:
    """Raises ValueError unless exactly the redundant constraints were dropped."""
    rows, explanation = redundant_constraints.lasting_dependence(reduced, reduced.labels, t, state)
    if len(rows):
        raise ValueError(
            f"Without the components that `redundant` names, {len(rows)} of {reduced.m} constraints still depend on "
            f"others: {explanation}. Assemble with redundant='minimum-norm' and pass the `dropped` of that system."
        )
    count = len(redundant_constraints.lasting_dependence(system, system.labels, t, state).rows)
    if system.m - reduced.m > count:
        raise ValueError(
            f"`redundant` drops {system.m - reduced.m} components, but {count} follow from others: the motion would "
            "not keep the rest. Assemble with redundant='minimum-norm' and pass the `dropped` of that system."
        )


def _dependent(system: MultibodySystem, t: float, state: State, refuse: bool) -> dict[str, tuple[int, ...]]:
    """Redundant components of constraints, by the name of the joint."""
    rows, explanation = redundant_constraints.lasting_dependence(system, system.labels, t, state)
    edges = {label for label in system.labels if label.endswith("-constraint") and "-edge-" in label}
    if edges and not len(rows) and system.m == system.n:
        raise ValueError(
            f"The {system.m} constraints leave the {system.n} velocities no freedom: nothing can move. Constrain fewer "
            "strains of the rods (`constrained` in `add_rod`), or hold their ends less."
        )
    if len(rows) and refuse:
        in_rods = " (of edges of rods: constrain fewer strains in `add_rod`)" if edges else ""
        raise ValueError(
            f"{len(rows)} of {system.m} constraints are redundant: {explanation}. Free them in those "
            f'joints{in_rods}, or give `redundant="minimum-norm"` to `problem` or `assemble`: the motion is the same.'
        )
    dropped: dict[str, tuple[int, ...]] = {}
    for row in rows:
        name = system.labels[row]
        dropped[name] = (*dropped.get(name, ()), int(row) - system.labels.index(name))
    return dropped


def _names(body: Body) -> tuple[str, ...]:
    """The name of a body, with those of its nodes."""
    nodes = body.nodes if isinstance(body, FlexibleBody) else ()
    return body.name, *(node.name for node in nodes)
