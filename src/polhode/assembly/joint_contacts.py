"""Rigid stops and dry friction of a model as contacts along joint coordinates."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax.numpy as jnp
import numpy as np
from jaxtyping import Float

from polhode import checks
from polhode.assembly.coordinate_layout import AbstractLayout
from polhode.assembly.counted_angles import TurnRegister
from polhode.assembly.element_groups import kind_of
from polhode.forces.coordinate_forces import DryFriction, RigidStops
from polhode.forces.joint_forces import AbstractJointForce, JointFriction, JointStops, is_rigid
from polhode.forces.pivot_friction import PivotFriction
from polhode.joints._pair import AbstractPairJoint
from polhode.joints.relative import is_angle
from polhode.multibody.joint_contacts import (
    NO_STOP,
    Bearings,
    CoordinateGroup,
    JointContactName,
    JointContacts,
    TreeSums,
)
from polhode.multibody.mechanism.groups import stack_trees
from polhode.multibody.pivot_contacts import PivotContacts, PivotName
from polhode.systems.mechanical.contact_set import AbstractContactSet, ContactLaw, StribeckCurve

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

_STOP_ROOM = 6
"""Stops without friction along their coordinates that may press at a time."""


class _Along(NamedTuple):
    """Parts along one coordinate: stops, one at most, and friction, with their names."""

    parts: list[tuple[str, AbstractJointForce]]

    @property
    def first(self) -> AbstractJointForce:
        return self.parts[0][1]

    @property
    def has_stops(self) -> bool:
        return any(isinstance(part, JointStops) for _, part in self.parts)


def build_joint_contacts(model: ModelParts, layout: AbstractLayout, register: TurnRegister) -> JointContacts | None:
    """Those of a model in the rows of a layout; None without any."""
    sums: list[tuple[_Along, tuple[Any, Any, tuple[Any, ...]]]] = []
    groups: dict[Hashable, list[_Along]] = {}
    for along in _by_coordinate(model):
        part = along.first
        sum_in_tree = layout.tree_sum(part.joint.terms(part.along), part.joint.initial(part.along))
        if sum_in_tree is not None:
            sums.append((along, sum_in_tree))
            continue
        kind = kind_of(part.measured), tuple(layout.kind(body) for body in part.bodies)
        groups.setdefault(kind, []).append(along)
    ordered = [along for along, _ in sums] + [along for members in groups.values() for along in members]
    if not ordered:
        return None
    names = {id(part): name for name, part in model.parts}
    elements = [[part.place(()) for _, part in along.parts] for along in ordered]
    frictions = [[e for e in each if isinstance(e, DryFriction)] for each in elements]
    constant = [sum(_largest(e) for e in each if e.friction.constant is not None) for each in frictions]
    brakes = [(k, e.friction) for k, each in enumerate(frictions) for e in each if e.friction.constant is None]
    falls = [_fall(each, along) for each, along in zip(frictions, ordered, strict=True)]
    stops = [next((e for e in each if isinstance(e, RigidStops)), None) for each in elements]
    count, none = len(ordered), (-NO_STOP, NO_STOP)
    acts = np.array([bool(each) for each in frictions])[:, None].astype(float)
    with_friction = tuple(k for k, each in enumerate(frictions) if each)
    capacity = _STOP_ROOM if model.contact_capacity is None else model.contact_capacity
    return JointContacts(
        sums=_tree_sums([one for _, one in sums]),
        groups=tuple(_group(layout, register, members) for members in groups.values()),
        law=ContactLaw(
            friction=jnp.asarray(acts) * jnp.stack([jnp.asarray(fall.ratio, float) for fall in falls])[:, None],
            restitution=jnp.stack([jnp.zeros(()) if s is None else s.restitution for s in stops]),
            tangential_restitution=jnp.zeros(count),
            bounces=not all(s is None or checks.is_zero(s.restitution) for s in stops),
            stribeck=_curve(falls, acts),
        ),
        limits=jnp.stack([jnp.asarray(none) if s is None else jnp.clip(s.limits, *none) for s in stops]),
        friction=jnp.stack([jnp.asarray(value, float) for value in constant]),
        brakes=tuple(f for _, f in brakes),
        brake_numbers=tuple(k for k, _ in brakes),
        names=tuple(_name(along, names) for along in ordered),
        with_friction=with_friction,
        stop_room=min(capacity, count - len(with_friction)),
        bearings=_bearings(frictions, ordered, names),
    )


def build_pivots(model: ModelParts, layout: AbstractLayout) -> PivotContacts | None:
    """Friction of joints that turn in several directions; None without any."""
    parts = [(name, part) for name, part in model.parts if isinstance(part, PivotFriction)]
    if not parts:
        return None
    first, second = (layout.slot(ends) for ends in zip(*(part.bodies for _, part in parts), strict=True))
    names = tuple(PivotName(_of_joint(part.joint), name) for name, part in parts)
    return PivotContacts.of((first, second), tuple(part.place(()).bound for _, part in parts), names)


def check_pivots(pivots: PivotContacts | None, shapes: AbstractContactSet | None) -> None:
    """Raises ValueError for contacts of shapes with moments, which have no room for torques in all directions."""
    if pivots is not None and shapes is not None and shapes.law.drilling is not None:
        raise ValueError(
            f"Friction of {pivots.names[0].joint} (`PivotFriction`) doesn't go with drilling or rolling friction of "
            "contacts in one model. Leave `drilling` and `rolling` out, or take `JointFriction` of other joints."
        )


def check_impacts(joints: JointContacts | None, shapes: AbstractContactSet | None) -> None:
    """Raises ValueError for stops that bounce by Newton's law beside contacts that bounce by Poisson's."""
    if joints is not None and shapes is not None and joints.law.bounces and shapes.law.is_poisson:
        raise ValueError(
            f"Stops of {joints.names[0].along} bounce by Newton's law, and contacts of shapes by Poisson's, which may "
            "hit at once: give the stops no `restitution`, or the contacts impact_law='newton'."
        )


def _of_joint(joint: AbstractPairJoint) -> str:
    bodies = " and ".join(f"`{body.name}`" for body in joint.bodies)
    return f"joint `{joint.name}`" if joint.name else f"the joint of {bodies}"


def has_bearings(model: ModelParts) -> bool:
    """Whether friction of joints grows with their forces."""
    return any(isinstance(part, JointFriction) and part.load_factor is not None for _, part in model.parts)


def check_bearings(contacts: JointContacts | None, labels: Sequence[str], dropped: Sequence[str]) -> None:
    """Raises ValueError unless forces of all joints whose friction grows with them are multipliers.

    - `labels`: joints of all constraints. - `dropped`: those with redundant ones.
    """
    bearings = None if contacts is None else contacts.bearings
    for joint in () if bearings is None else bearings.joints:
        if joint not in labels:
            raise ValueError(
                f"Friction of `{joint}` grows with the joint's force (`load_factor`), which is no multiplier in joint "
                "coordinates: take absolute ones, formulation='SO3xR3'."
            )
        if joint in dropped:
            raise ValueError(
                f"Friction of `{joint}` grows with the joint's force (`load_factor`), which is not determined, as some "
                "of its constraints are redundant: free them in the joint, or leave `load_factor` out."
            )


def _bearings(
    frictions: Sequence[Sequence[DryFriction]], ordered: Sequence[_Along], names: dict[int, str]
) -> Bearings | None:
    """Friction that grows with forces of joints, None without any."""
    factors, contacts, joints = [], [], []
    for k, (each, along) in enumerate(zip(frictions, ordered, strict=True)):
        for element in each:
            if element.load_factor is None:
                continue
            if id(along.first.joint) not in names:
                raise ValueError(
                    f"`load_factor` of {along.parts[0][0]!r} is of the force of a joint of the model, and its joint "
                    "is none: add it by `model.add(…)`, and give the same object to `JointFriction`."
                )
            factors.append(element.load_factor)
            contacts.append(k)
            joints.append(names[id(along.first.joint)])
    return Bearings(jnp.stack(factors), tuple(contacts), tuple(joints)) if factors else None


class _Fall(NamedTuple):
    """Friction of what slides, in parts of that at rest, and the rate over which it falls, None if it is the same."""

    ratio: Any
    speed: Any


def _largest(element: DryFriction) -> Any:
    """Friction at rest of an element whose friction is a number."""
    return element.friction.constant if element.static_friction is None else element.static_friction


def _fall(elements: Sequence[DryFriction], along: _Along) -> _Fall:
    """That of all friction along a coordinate. Raises ValueError for sums of which no curve is known."""
    speeds = [e.stribeck_speed for e in elements if e.static_friction is not None]
    if not speeds:
        return _Fall(1.0, None)
    if len(speeds) > 1 or any(e.friction.constant is None for e in elements):
        names = ", ".join(repr(name) for name, _ in along.parts)
        raise ValueError(
            f"Along one coordinate, that of {names}, friction with a `static_friction` goes with constant friction "
            "only: give it one part, or leave `static_friction` out."
        )
    total = sum(_largest(e) for e in elements)
    sliding = sum(e.friction.constant for e in elements if e.friction.constant is not None)
    return _Fall(jnp.where(total > 0, sliding / jnp.where(total > 0, total, 1.0), 1.0), speeds[0])


def _curve(falls: Sequence[_Fall], acts: Float[np.ndarray, "k 1"]) -> StribeckCurve | None:
    """The curve of friction in parts of that at rest."""
    if all(fall.speed is None for fall in falls):
        return None
    speeds = [jnp.asarray(1.0 if fall.speed is None else fall.speed, float) for fall in falls]
    return StribeckCurve(jnp.asarray(acts), jnp.stack(speeds))


def has_joint_contacts(model: ModelParts) -> bool:
    """Whether joints have rigid stops or dry friction."""
    return any(is_rigid(part) for _, part in model.parts)


def _by_coordinate(model: ModelParts) -> list[_Along]:
    coordinates: dict[Hashable, _Along] = {}
    for name, part in model.parts:
        if not (isinstance(part, AbstractJointForce) and part.is_rigid):
            continue
        key: Hashable = id(part.joint), part.along
        if key in coordinates and coordinates[key].has_stops and isinstance(part, JointStops):
            # Other stops along the same coordinate have a contact of their own.
            key = id(part)
        coordinates.setdefault(key, _Along([])).parts.append((name, part))
    return list(coordinates.values())


def _tree_sums(sums: Sequence[tuple[Any, Any, tuple[Any, ...]]]) -> TreeSums | None:
    if not sums:
        return None
    ratios, zeros, places = zip(*sums, strict=True)
    owners = tuple(k for k, own in enumerate(places) for _ in own)
    return TreeSums(jnp.concatenate(ratios), jnp.stack(zeros), tuple(p for own in places for p in own), owners)


def _group(layout: AbstractLayout, register: TurnRegister, members: Sequence[_Along]) -> CoordinateGroup:
    parts = [along.first for along in members]
    slots = tuple(layout.slot(ends) for ends in zip(*(part.bodies for part in parts), strict=True))
    coordinates = [part.measured for part in parts]
    turns = register.of(list(zip(parts, coordinates, strict=True)), slots)
    return CoordinateGroup(stack_trees(coordinates), slots, turns)


def _name(along: _Along, names: dict[int, str]) -> JointContactName:
    part = along.first
    terms = []
    for ratio, pair, name in part.joint.terms(part.along):
        # Ratios that JAX traces are not known.
        number = float(np.asarray(ratio)) if checks.is_concrete(ratio) else float("nan")
        label = getattr(pair, "name", None) or names.get(id(pair.carrier), "")
        terms.append((label, next(iter(pair.coordinates())) if name is None else name, number))
    own: Any = getattr(part.joint, "name", None)
    bodies = " and ".join(f"`{body.name}`" for body in part.bodies)
    text = f"joint `{own}`" if own else f"joint `{terms[0][0]}`" if len(terms) == 1 and terms[0][0] else bodies
    return JointContactName(text, tuple(name for name, _ in along.parts), tuple(terms), is_angle(part.measured))
