"""From a model to equations of motion in chosen coordinates."""

from __future__ import annotations

import collections
import dataclasses
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, TypeVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode._ambient import check_environment
from polhode.checks import shown
from polhode.execution.once import interpreted
from polhode.linalg.blocks import Places
from polhode.model import consistency, formulations, livens, redundancy, separable
from polhode.model.bodies import SINGLE, Body
from polhode.model.elements import AbstractConstraintElement, AbstractForceElement, AbstractJoint, Pose, Twist
from polhode.model.flexible_body import TAKEN, FlexibleBody
from polhode.model.formulations import AbstractFormulation, MassPoint
from polhode.model.formulations.floating_frame import FloatingFrame
from polhode.model.formulations.lie_groups import DirectProduct, SemidirectProduct
from polhode.model.groups import BodyGroup, ForceGroup, JointGroup, Slot
from polhode.model.holding import Held, held, repaired_holding
from polhode.model.livens_gradients import dressed
from polhode.model.livens_levers import LEVERS
from polhode.model.minimal import TreeSystem
from polhode.model.minimal_assembly import MINIMAL, TreeLayout
from polhode.model.multibody import MultibodySystem
from polhode.model.separable import SEPARABLE, SeparableMultibody
from polhode.systems.base import State

if TYPE_CHECKING:
    from polhode.model.model import Model


Group = TypeVar("Group", BodyGroup, JointGroup, ForceGroup)

_LOOPED = 48
"""Velocities from which on groups of elements are evaluated row by row. Steps of smaller systems are run on scalars
altogether, where that would be in the way."""

Redundant = Literal["error", "minimum-norm"] | Mapping[str, tuple[int, ...]]
Assembled = MultibodySystem | TreeSystem | livens.LivensMultibody | SeparableMultibody


def assemble(
    model: Model,
    formulation: str,
    *,
    repair: bool,
    redundant: Redundant,
    t0: float,
    joints: str,
    hold: Sequence[str | Held] = (),
) -> tuple[Assembled, State]:
    """System and initial state of a model; see `Model.assemble`."""
    if hold and not repair:
        raise ValueError("`hold` says what `repair=True` must not change; without that nothing is changed.")
    start = Start(repair, redundant, t0, held(model, hold))
    check_environment()
    checks.choice("joints", joints, LEVERS)
    checks.flag("repair", repair)
    checks.choice("formulation", formulation, (*formulations.FORMULATIONS, MINIMAL, livens.LIVENS, SEPARABLE))
    if formulation != livens.LIVENS and joints != "invariant":
        raise ValueError(
            f"`joints` is for formulation='livens'; with {shown(formulation)} leave it out, got {shown(joints)}."
        )
    _refuse_flexible(model, formulation)
    if formulation == SEPARABLE:
        base, state = _in_coordinates(model, "S3xR3", start)
        assert isinstance(base, MultibodySystem)
        return separable.build(base, state)
    if formulation != livens.LIVENS:
        return _in_coordinates(model, formulation, start)
    dress = dressed if joints == "invariant" else None
    base, state = _in_coordinates(model, "S3xR3", start, dress)
    assert isinstance(base, MultibodySystem)
    return livens.build(base, state, joints)


def _refuse_flexible(model: Model, formulation: str) -> None:
    """Raises ValueError if bodies deform, which these coordinates don't know."""
    flexible = [body for body in model.bodies if body.kind == "flexible"]
    if flexible and formulation in (MINIMAL, livens.LIVENS, SEPARABLE):
        raise ValueError(f"{flexible[0]!r} deforms, and {formulation!r} has no coordinates for that. {TAKEN}")


class Start(NamedTuple):
    """How a model is to start: see `Model.assemble`."""

    repair: bool
    redundant: Redundant
    t0: float
    held: tuple[Held, ...]


def _in_coordinates(
    model: Model,
    formulation: str,
    given: Start,
    dress: Callable[[MultibodySystem, State], MultibodySystem] | None = None,
) -> tuple[MultibodySystem | TreeSystem, State]:
    repair, redundant, t0, _ = given
    if not model.bodies:
        raise ValueError("The model has no bodies; add some with `add_body` before `assemble`.")
    if redundant not in ("error", "minimum-norm") and not isinstance(redundant, Mapping):
        raise ValueError(
            f"`redundant` must be 'error', 'minimum-norm' or the `dropped` of a system, got {shown(redundant)}."
        )
    t0 = checks.number("t0", t0, "initial time") if checks.is_concrete(t0) else t0
    layout = TreeLayout(model, repair) if formulation == MINIMAL else _Layout(model.bodies, formulation)
    elements = [(name, part, part.placed()) for name, part in model.parts]
    if isinstance(layout, TreeLayout):
        elements = layout.remaining(elements)
    state = layout.start()

    def build(dropped: Mapping[str, tuple[int, ...]]) -> MultibodySystem | TreeSystem:
        built = _build(model, layout, elements, dropped)
        return built if dress is None or isinstance(built, TreeSystem) else dress(built, state)

    system = build({})
    if isinstance(redundant, Mapping):
        _check_dropped(system, redundant)
    if not checks.is_concrete(system, state):
        if repair or redundant == "minimum-norm":
            raise ValueError(
                "Inside jit, grad or vmap neither `repair=True` nor redundant='minimum-norm' can be decided. Assemble "
                "once outside, then pass the consistent state, and `redundant=system.dropped`."
            )
        return _solvable(build(redundant) if isinstance(redundant, Mapping) else system), state
    if repair:
        state = _repaired(system, layout, given, state)
    consistency.check_start(system, system.labels, t0, state)
    dropped = redundant if isinstance(redundant, Mapping) else _dependent(system, t0, state, redundant == "error")
    if not dropped and not isinstance(redundant, Mapping):
        return _solvable(system), state
    reduced = build(dropped)
    if isinstance(redundant, Mapping):
        _check_independent(system, reduced, t0, state)
    if not dropped:
        return _solvable(system), state
    # What is left out follows from the rest to round-off only where the start keeps all of it to round-off.
    state = consistency.sharpened(system, system.labels, t0, state)
    return _solvable(dataclasses.replace(reduced, complete=system)), state


def _repaired(system: MultibodySystem | TreeSystem, layout: _Layout | TreeLayout, given: Start, state: State) -> State:
    """The nearest state that fits and keeps what is held, as far as it can be; says what can't."""

    def more(held: Sequence[Held]) -> MultibodySystem | TreeSystem:
        extra, labels = _joints(layout, [(str(h.name), h, h.element) for h in held], {}, len(system.labels))
        return dataclasses.replace(system, joints=(*system.joints, *extra), labels=(*system.labels, *labels))

    return repaired_holding(system, more, given.t0, state, given.held)


def _build(
    model: Model, layout: _Layout | TreeLayout, elements: Sequence[Placed], dropped: Mapping[str, tuple[int, ...]]
) -> MultibodySystem | TreeSystem:
    joints, labels = _joints(layout, elements, dropped)
    if isinstance(layout, TreeLayout):
        return layout.system(joints, _forces(layout, elements), labels, dropped, _has_loops(model))
    internal, labels = layout.internal(labels)
    looped = sum(group.columns.numbers.size for group in layout.groups) >= _LOOPED
    return MultibodySystem(
        bodies=_told(layout.groups, looped),
        joints=_told(joints, looped),
        forces=_told(_forces(layout, elements), looped),
        gravity=model.gravity,
        internal=internal,
        places=layout.places,
        labels=labels,
        dropping=tuple(sorted(dropped.items())),
        complete=None,
        loops=_has_loops(model),
    )


def _has_loops(model: Model) -> bool:
    """Whether some joint connects what other joints have connected already."""
    parent: dict[str, str] = {}

    def root(name: str) -> str:
        while name in parent:
            name = parent[name]
        return name

    for part in (part for _, part in model.parts if isinstance(part, AbstractJoint)):
        names = {body.name for body in part.bodies}
        first, *others = {root(name) for name in names}
        # Of several bodies, some may be connected already.
        if len(others) + 1 < len(names):
            return True
        parent.update(dict.fromkeys(others, first))
    return False


def _told(groups: tuple[Group, ...], looped: bool) -> tuple[Group, ...]:
    return tuple(dataclasses.replace(group, looped=looped) for group in groups)


def _solvable(system: MultibodySystem | TreeSystem) -> MultibodySystem | TreeSystem:
    """The system with its linear solver chosen once."""
    return dataclasses.replace(system, solver=system.choose_solver())


def _check_dropped(system: MultibodySystem | TreeSystem, dropped: Mapping[str, tuple[int, ...]]) -> None:
    """Raises ValueError unless `dropped` names components of constraints that there are."""
    sizes = collections.Counter(system.labels)
    for name, components in dropped.items():
        if name not in sizes:
            known = ", ".join(f"`{joint}`" for joint in sizes) or "none"
            raise ValueError(
                f"`redundant` names {shown(name)}, which has no constraints in these coordinates; {known} have."
            )
        numbers = list(components) if isinstance(components, Iterable) else [components]
        whole = all(isinstance(i, int | np.integer) and not isinstance(i, bool) for i in numbers)
        if not whole or len({*numbers}) < len(numbers) or not all(0 <= i < sizes[name] for i in numbers):
            raise ValueError(
                f"`redundant` must name components of `{name}` once, as whole numbers from 0 to {sizes[name] - 1}, got "
                f"{shown(components)}."
            )


def _check_independent(
    system: MultibodySystem | TreeSystem, reduced: MultibodySystem | TreeSystem, t: float, state: State
) -> None:
    """Raises ValueError unless what was dropped is redundant, and nothing else is."""
    rows, explanation = redundancy.lasting_dependence(reduced, reduced.labels, t, state)
    if len(rows):
        raise ValueError(
            f"Without the components that `redundant` names, {len(rows)} of {reduced.m} constraints still depend on "
            f"others: {explanation}. Assemble with redundant='minimum-norm' and pass the `dropped` of that system."
        )
    count = len(redundancy.lasting_dependence(system, system.labels, t, state).rows)
    if system.m - reduced.m > count:
        raise ValueError(
            f"`redundant` drops {system.m - reduced.m} components, but {count} follow from others: the motion would "
            "not keep the rest. Assemble with redundant='minimum-norm' and pass the `dropped` of that system."
        )


def _dependent(
    system: MultibodySystem | TreeSystem, t: float, state: State, refuse: bool
) -> dict[str, tuple[int, ...]]:
    """Components of joints that follow from others, by the name of the joint."""
    rows, explanation = redundancy.lasting_dependence(system, system.labels, t, state)
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
            f"joints{in_rods}, or carry on with assemble(redundant='minimum-norm')."
        )
    dropped: dict[str, tuple[int, ...]] = {}
    for row in rows:
        name = system.labels[row]
        dropped[name] = (*dropped.get(name, ()), int(row) - system.labels.index(name))
    return dropped


class _Layout:
    """Which body of the model is which row of which group."""

    def __init__(self, bodies: Sequence[Body], formulation: str) -> None:
        chosen = formulations.get(formulation)
        kinds: dict[Hashable, tuple[AbstractFormulation, list[Body]]] = {}
        for body in bodies:
            form = _formulation(body, chosen)
            # Bodies with the same modes are alike.
            key = (form.frame, id(form.modal)) if isinstance(form, FloatingFrame) else form
            kinds.setdefault(key, (form, []))[1].append(body)
        self.members = [members for _, members in kinds.values()]
        self.groups, self.places = self._stack(list(kinds.values()))
        self._index = {name: tuple(place) for name, *place in self.places}
        self._first = np.cumsum([0] + [group.rows for group in self.groups])

    def _stack(
        self, kinds: Sequence[tuple[AbstractFormulation, list[Body]]]
    ) -> tuple[tuple[BodyGroup, ...], tuple[tuple[str, int, int, int], ...]]:
        groups, places, at = [], [], 0
        for g, (form, members) in enumerate(kinds):
            count = len(members)
            columns = at + np.arange(count * form.n).reshape(count, form.n)
            at += count * form.n
            groups.append(
                BodyGroup(
                    form,
                    checks.stacked([b.mass for b in members]),
                    checks.stacked([b.inertia for b in members]),
                    Places(columns),
                )
            )
            rows = [(b, *b.nodes) if isinstance(b, FlexibleBody) else (b,) for b in members]
            places += [(at.name, g, k, node) for k, row in enumerate(rows) for node, at in enumerate(row)]
        return tuple(groups), tuple(places)

    def slot(self, bodies: Sequence[Body]) -> Slot:
        """One end of several elements; all bodies are of one kind, or all are the ground."""
        total = int(self._first[-1])
        if bodies[0].kind == "ground":
            none = np.zeros(len(bodies), dtype=int)
            return Slot(None, Places(none), Places(none + total), Places(np.zeros((len(bodies), 0), dtype=int)))
        found = [self._index[body.name] for body in bodies]
        group, _, node = found[0]
        members = np.array([member for _, member, _ in found])
        rows = self._first[group] + self.groups[group].formulation.nodes * members + node
        columns = self.groups[group].columns.numbers[members]
        return Slot(group, Places(members), Places(rows), Places(columns), node)

    def kind(self, body: Body) -> tuple[int, int] | None:
        """Group of the body and number of the node: those of an element's slot."""
        if body.kind == "ground":
            return None
        group, _, node = self._index[body.name]
        return group, node

    def internal(self, labels: tuple[str, ...]) -> tuple[tuple[Places | None, ...], tuple[str, ...]]:
        """Rows of the constraints among the coordinates of single bodies."""
        rows: list[Places | None] = []
        for group, members in zip(self.groups, self.members, strict=True):
            k = group.formulation.internal
            if k == 0:
                rows.append(None)
                continue
            rows.append(Places(len(labels) + np.arange(k * len(members)).reshape(len(members), k)))
            labels += tuple(f"{body.name}, norm of its coordinates" for body in members for _ in range(k))
        return tuple(rows), labels

    def start(self) -> State:
        """The initial state that the bodies of the model name."""
        points, velocities = [], []
        for group, members in zip(self.groups, self.members, strict=True):
            form, motions = group.formulation, [_motion(body) for body in members]
            if isinstance(form, FloatingFrame):
                states = [body.start(form) for body in members if isinstance(body, FlexibleBody)]
                q, v = (_stack(parts) for parts in zip(*states, strict=True))
            elif isinstance(form, DirectProduct | SemidirectProduct):
                poses, twists = (_stack(which) for which in zip(*motions, strict=True))
                q, v = _coordinates(form, poses, twists)
            else:
                # Other coordinates may refuse a pose, for which they have to see its numbers.
                each_q = [form.from_pose(pose) for pose, _ in motions]
                q = _stack(each_q)
                v = jnp.stack([form.from_twist(p, twist) for p, (_, twist) in zip(each_q, motions, strict=True)])
            points.append(q)
            velocities.append(v.reshape(-1))
        return tuple(points), jnp.concatenate(velocities)


def _motion(body: Body) -> tuple[Pose, Twist]:
    return Pose(body.x, body.R), Twist(body.omega, body.u)


@interpreted
def _coordinates(form: AbstractFormulation, poses: Pose, twists: Twist) -> tuple[Any, Any]:
    """Coordinates and velocities of several bodies."""

    def one(pose: Pose, twist: Twist) -> tuple[Any, Any]:
        q = form.from_pose(pose)
        return q, form.from_twist(q, twist)

    return jax.vmap(one)(poses, twists)


def _formulation(body: Body, chosen: AbstractFormulation) -> AbstractFormulation:
    if isinstance(body, FlexibleBody):
        return body.floating(chosen)
    if body.kind == "point":
        return MassPoint(3)
    if body.kind in SINGLE:
        return MassPoint(1, energetic=body.kind == "coordinate")
    return chosen if body.formulation is None else formulations.get(body.formulation)


Placed = tuple[str, Any, AbstractConstraintElement | AbstractForceElement]


def _joints(
    layout: _Layout | TreeLayout, elements: Sequence[Placed], dropped: Mapping[str, tuple[int, ...]], first: int = 0
) -> tuple[tuple[JointGroup, ...], tuple[str, ...]]:
    """Joint elements by kind, and the joint behind each constraint, numbered from `first`; without those `dropped`."""
    kinds: dict[Any, list[tuple[Any, AbstractConstraintElement, np.ndarray]]] = {}
    labels: list[str] = []
    for name, part, element in elements:
        if not isinstance(part, AbstractJoint) or not isinstance(element, AbstractConstraintElement):
            continue
        kept = tuple(i for i in range(element.size) if i not in dropped.get(name, ()))
        if kept:
            key = (_kind(element), tuple(layout.kind(b) for b in part.bodies), kept)
            kinds.setdefault(key, []).append((part, element, first + len(labels) + np.arange(len(kept))))
            labels += [name] * len(kept)
    groups = []
    for (_, _, kept), members in kinds.items():
        slots = tuple(layout.slot(ends) for ends in zip(*(part.bodies for part, _, _ in members), strict=True))
        stacked = _stack([element for _, element, _ in members])
        groups.append(JointGroup(stacked, slots, Places(np.stack([rows for _, _, rows in members])), kept))
    return tuple(groups), tuple(labels)


def _forces(layout: _Layout | TreeLayout, elements: Sequence[Placed]) -> tuple[ForceGroup, ...]:
    kinds: dict[Hashable, list[tuple[Any, AbstractForceElement]]] = {}
    for _, part, element in elements:
        if isinstance(element, AbstractForceElement):
            key = (_kind(element), tuple(layout.kind(b) for b in part.bodies))
            kinds.setdefault(key, []).append((part, element))
    return tuple(
        ForceGroup(
            _stack([element for _, element in members]),
            tuple(layout.slot(ends) for ends in zip(*(part.bodies for part, _ in members), strict=True)),
        )
        for members in kinds.values()
    )


def _kind(element: eqx.Module) -> Hashable:
    """Equal for elements that can be stacked."""
    leaves, structure = jax.tree.flatten(element)
    return structure, tuple((jnp.shape(leaf), _dtype(leaf)) for leaf in leaves)


def _dtype(leaf: Any) -> Any:
    # JAX takes as long to say as to stack.
    return leaf.dtype if isinstance(leaf, np.ndarray | jax.Array) else jnp.result_type(leaf)


def _stack(trees: Sequence[Any]) -> Any:
    return jax.tree.map(lambda *leaves: checks.stacked(leaves), *trees)
