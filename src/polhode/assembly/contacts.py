"""Contacts of a model: pairs of shapes, their laws, and where they are in a motion."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Hashable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from polhode.assembly.coordinate_layout import AbstractLayout
from polhode.checks import short_repr
from polhode.contact.distances import slots
from polhode.contact.rules import ContactRule
from polhode.contact.shape_contacts import PairGroup, ShapeContacts, ShapePair
from polhode.contact.shapes import AbstractShape
from polhode.linalg.blocks import Indices
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.groups import stack_trees
from polhode.multibody.parts import AbstractJoint
from polhode.systems.mechanical.contact_set import ContactLaw

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


class _Pair(NamedTuple):
    """Two shapes that may touch, with their bodies and the rule."""

    first: Body
    first_shape: AbstractShape
    second: Body
    second_shape: AbstractShape
    rule: ContactRule


def build_contacts(model: ModelParts, layout: AbstractLayout) -> ShapeContacts | None:
    """The contacts of a model in the rows of a layout; None where nothing can touch."""
    kinds: dict[Hashable, list[_Pair]] = {}
    for pair in _pairs(model):
        kinds.setdefault((_kind(pair.first_shape), _kind(pair.second_shape)), []).append(pair)
    if not kinds:
        return None
    groups, labels, rules = [], [], []
    for pairs in kinds.values():
        group = PairGroup(
            stack_trees([_plain(pair.first_shape) for pair in pairs]),
            stack_trees([_plain(pair.second_shape) for pair in pairs]),
            _nodes(layout, [pair.first for pair in pairs]),
            _nodes(layout, [pair.second for pair in pairs]),
        )
        groups.append(group)
        for pair in pairs:
            labels += [_label(pair, point) for point in range(group.slots)]
            rules += [pair.rule] * group.slots
    return ShapeContacts(
        groups=tuple(groups), law=_law(rules), surface_velocity=_surface_velocity(rules), pairs=tuple(labels)
    )


def _pairs(model: ModelParts) -> Iterator[_Pair]:
    """All pairs of shapes that rules name, each once: later rules replace earlier ones."""
    bodies = [body for body in (model.ground, *model.bodies) if body.shapes]
    chosen: dict[tuple[int, int], tuple[Body, Body, ContactRule]] = {}
    joined = _joined(model)
    for rule in model.contact_rules:
        if rule.first is None:
            without = {frozenset((id(a), id(b))) for a, b in rule.without} | joined
            pairs = [p for p in itertools.combinations(bodies, 2) if frozenset(map(id, p)) not in without]
        else:
            pairs = [(rule.first, rule.second)]
        for first, second in pairs:
            if frozenset((id(first), id(second))) in chosen:
                chosen.pop(frozenset((id(first), id(second))))
            chosen[frozenset((id(first), id(second)))] = (first, second, rule)
    for first, second, rule in chosen.values():
        for one, other in itertools.product(first.shapes, second.shapes):
            yield _Pair(first, one, second, other, rule)


def _joined(model: ModelParts) -> set[frozenset[int]]:
    """Pairs of bodies with a joint between them; those on the ground may touch it all the same."""
    joints = [part for _, part in model.parts if isinstance(part, AbstractJoint)]
    ends = [part.bodies for part in joints if len(part.bodies) == 2 and model.ground not in part.bodies]
    return {frozenset(map(id, pair)) for pair in ends}


def _label(pair: _Pair, point: int) -> ShapePair:
    return ShapePair(
        pair.first.name, pair.second.name, pair.first_shape.name, pair.second_shape.name, pair.rule.name, point
    )


def _plain(shape: AbstractShape) -> AbstractShape:
    """The shape without name and colour, by which shapes of one kind may differ."""
    return dataclasses.replace(shape.as_arrays(), name=None, colour=None)


def _kind(shape: AbstractShape) -> Hashable:
    """Equal for shapes that can be stacked."""
    leaves, structure = jax.tree.flatten(_plain(shape))
    return structure, tuple(jnp.shape(leaf) for leaf in leaves)


def _nodes(layout: AbstractLayout, bodies: Sequence[Body]) -> Indices:
    return Indices(np.array([layout.slot((body,)).nodes.numbers.reshape(-1)[0] for body in bodies]))


def _law(rules: Sequence[ContactRule]) -> ContactLaw:
    numbers = lambda what: jnp.stack([jnp.asarray(getattr(rule, what), float) for rule in rules])  # noqa: E731
    friction = jnp.stack([jnp.broadcast_to(jnp.asarray(rule.friction, float), (2,)) for rule in rules])
    law = ContactLaw(friction, numbers("restitution"), numbers("tangential_restitution"))
    if not any(rule.has_moments for rule in rules):
        return law
    return dataclasses.replace(law, drilling=numbers("drilling"), rolling=numbers("rolling"))


def _surface_velocity(rules: Sequence[ContactRule]) -> Any:
    if all(rule.surface_velocity is None for rule in rules):
        return None
    zero = np.zeros(3)
    return jnp.stack([jnp.asarray(zero if r.surface_velocity is None else r.surface_velocity, float) for r in rules])


def check_rule(model: ModelParts, rule: ContactRule) -> None:
    """Raises ValueError if the bodies of a rule can't touch, or kinds of shapes have no distance."""
    for body in (rule.first, rule.second):
        if not isinstance(body, Body) or not (body is model.ground or model.register.has(body)):
            raise ValueError(f"A contact is between two bodies of the model, got {short_repr(body)}.")
        if not body.shapes:
            raise ValueError(
                f"{body!r} has no shape that could touch anything: give it one, `add_body(…, shape=…)` or "
                "`body.add_shape(polhode.shapes.Sphere(…))`, before `add_contact`."
            )
    if rule.first is rule.second:
        raise ValueError(f"A contact is between two different bodies, got {rule.first!r} twice.")
    for one, other in itertools.product(rule.first.shapes, rule.second.shapes):
        slots(one, other)
