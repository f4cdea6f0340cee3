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
from polhode.checks import is_zero, short_repr
from polhode.contact.distances import check_pair
from polhode.contact.rules import ContactRule
from polhode.contact.shape_contacts import PairGroup, ShapeContacts, ShapePair
from polhode.contact.shapes import AbstractShape
from polhode.linalg.blocks import Indices
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.groups import stack_trees
from polhode.multibody.parts import AbstractJoint
from polhode.systems.mechanical.contact_set import ContactLaw, StribeckCurve

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


_BASE_ROOM = 4
_ROOM_OF_A_BODY = 4
_MOST_SPARE = 1.5
"""Contacts over room up to which there is room for all of them, without a search for the nearest."""


class Pair(NamedTuple):
    """Two shapes that may touch, with their bodies and the rule."""

    first: Body
    first_shape: AbstractShape
    second: Body
    second_shape: AbstractShape
    rule: ContactRule


def build_contacts(model: ModelParts, layout: AbstractLayout) -> ShapeContacts | None:
    """The contacts of a model in the rows of a layout; None where nothing can touch."""
    pairs = list(pairs_of(model, "rigid"))
    plain = _plain_shapes(pairs)
    structures = {key: kind_of(shape) for key, shape in plain.items()}
    kinds: dict[Hashable, list[Pair]] = {}
    for pair in pairs:
        kinds.setdefault((structures[id(pair.first_shape)], structures[id(pair.second_shape)]), []).append(pair)
    if not kinds:
        return None
    groups, labels, rules = [], [], []
    for pairs in kinds.values():
        group = PairGroup.of(
            stack_trees([plain[id(pair.first_shape)] for pair in pairs]),
            stack_trees([plain[id(pair.second_shape)] for pair in pairs]),
            _nodes(layout, [pair.first for pair in pairs]),
            _nodes(layout, [pair.second for pair in pairs]),
        )
        groups.append(group)
        for pair in pairs:
            labels += [_label(pair, point) for point in range(group.slots)]
            rules += [pair.rule] * group.slots
    return ShapeContacts(
        groups=tuple(groups),
        law=law_of(rules),
        surface_velocity=_surface_velocity(rules),
        pairs=tuple(labels),
        room=_room(model, len(labels)),
    )


def _room(model: ModelParts, count: int) -> int:
    """How many contacts may touch at a time: as the model says, or as it has by default."""
    if model.contact_capacity is not None:
        return min(count, model.contact_capacity)
    room = default_room(model)
    return count if count <= _MOST_SPARE * room else room


def default_room(model: ModelParts) -> int:
    """Contacts for which there is room where the model doesn't say: four for each free body, and four.

    Besides one for each body with shapes that hangs on a joint, where such bodies touch each other: machines that fall
    and chains that are piled up.
    """
    # Inertias of rotors are bodies that touch nothing.
    bodies = sum(body.kind != "coordinate" for body in model.bodies)
    roots = bodies - sum(_carries(part) for _, part in model.parts)
    shaped = sum(bool(body.shapes) for body in model.bodies)
    links = max(0, shaped - roots) if _has_general_rule(model) else 0
    return _BASE_ROOM + _ROOM_OF_A_BODY * max(1, roots) + links


def _has_general_rule(model: ModelParts) -> bool:
    """Whether bodies touch each other, and not the ground alone."""
    return any(rule.law == "rigid" and rule.first is None and not rule.of_rods for rule in model.contact_rules)


def _carries(part: Any) -> bool:
    """Whether a part is a joint that one body hangs on; rods of constant length leave both bodies free to turn."""
    if not isinstance(part, AbstractJoint):
        return False
    carried = next((body for body in part.bodies if body.kind != "ground"), None)
    return carried is not None and part.motion(carried) is not None


def pairs_of(model: ModelParts, law: str) -> Iterator[Pair]:
    """The pairs of shapes that rules name, each once, with this law: later rules replace earlier ones."""
    if not any(rule.law == law for rule in model.contact_rules):
        return
    chosen: dict[frozenset[tuple[int, int]], Pair] = {}
    joined = joint_pairs(model)
    for rule in model.contact_rules:
        for first, second in _ends(model, rule, joined):
            for (body, shape), (other, its_shape) in itertools.product(first, second):
                # Bodies may share a shape.
                key = frozenset(((id(body), id(shape)), (id(other), id(its_shape))))
                chosen.pop(key, None)
                chosen[key] = Pair(body, shape, other, its_shape, rule)
    for pair in chosen.values():
        if pair.rule.law == law:
            check_distance(pair)
            yield pair


def _ends(model: ModelParts, rule: ContactRule, joined: set[frozenset[int]]) -> Iterator[tuple[list, list]]:
    """Both sides of a rule, each as shapes with their bodies; none of rules of rods."""
    if rule.of_rods:
        return
    if rule.first is not None:
        yield shapes_of(model, rule.first), shapes_of(model, rule.second)
        return
    without = {frozenset((id(a), id(b))) for a, b in rule.without} | joined
    bodies = [body for body in (model.ground, *model.bodies) if body.shapes]
    for pair in itertools.combinations(bodies, 2):
        if frozenset(map(id, pair)) not in without:
            first, second = (shapes_of(model, body) for body in pair)
            yield first, second


def shapes_of(model: ModelParts, end: Body | AbstractShape) -> list[tuple[Body, AbstractShape]]:
    """The shapes of a body, or the shape itself, with the body. Raises ValueError for what the model doesn't have."""
    bodies = (model.ground, *model.bodies)
    if isinstance(end, AbstractShape):
        owners = [body for body in bodies if any(shape is end for shape in body.shapes)]
        if not owners:
            raise ValueError(f"{end!r} is on no body of the model: add it by `body.add_shape(…)` first.")
        if len(owners) > 1:
            names = ", ".join(repr(body.name) for body in owners)
            raise ValueError(f"{end!r} is on several bodies, {names}: name the body, or give each a shape of its own.")
        return [(owners[0], end)]
    if not isinstance(end, Body) or not any(end is body for body in bodies):
        raise ValueError(f"A contact is between bodies of the model, or shapes on them, got {short_repr(end)}.")
    if not end.shapes:
        raise ValueError(
            f"{end!r} has no shape that could touch anything: give it one, `add_body(…, shape=…)` or "
            "`body.add_shape(polhode.shapes.Sphere(…))`, before `add_contact`."
        )
    return [(end, shape) for shape in end.shapes]


def joint_pairs(model: ModelParts) -> set[frozenset[int]]:
    """Pairs of bodies with a joint between them; those on the ground may touch it all the same."""
    joints = [part for _, part in model.parts if isinstance(part, AbstractJoint)]
    ends = [part.bodies for part in joints if len(part.bodies) == 2 and model.ground not in part.bodies]
    return {frozenset(map(id, pair)) for pair in ends}


def _label(pair: Pair, point: int) -> ShapePair:
    return ShapePair(
        pair.first.name, pair.second.name, pair.first_shape.name, pair.second_shape.name, pair.rule.name, point
    )


def plain_shape(shape: AbstractShape) -> AbstractShape:
    """The shape without name and colour, by which shapes of one kind may differ."""
    return dataclasses.replace(shape.as_arrays(), name=None, colour=None)


def _plain_shapes(pairs: Sequence[Pair]) -> dict[int, AbstractShape]:
    """The plain shapes of pairs, with arrays as long as those of others of their class, by the ids of the shapes."""
    shapes = {id(shape): shape for pair in pairs for shape in (pair.first_shape, pair.second_shape)}
    classes: dict[type[AbstractShape], list[int]] = {}
    for key, shape in shapes.items():
        classes.setdefault(type(shape), []).append(key)
    plain: dict[int, AbstractShape] = {}
    for cls, keys in classes.items():
        plain.update(zip(keys, cls.equalise([plain_shape(shapes[key]) for key in keys]), strict=True))
    return plain


def kind_of(plain: AbstractShape) -> Hashable:
    """Equal for shapes that can be stacked."""
    leaves, structure = jax.tree.flatten(plain)
    return structure, tuple(jnp.shape(leaf) for leaf in leaves)


def _nodes(layout: AbstractLayout, bodies: Sequence[Body]) -> Indices:
    return Indices(np.array([layout.slot((body,)).nodes.numbers.reshape(-1)[0] for body in bodies]))


def law_of(rules: Sequence[ContactRule]) -> ContactLaw:
    """The numbers of some rules."""
    numbers = lambda what: jnp.stack([jnp.asarray(getattr(rule, what), float) for rule in rules])  # noqa: E731
    pairs = lambda values: jnp.stack([jnp.broadcast_to(jnp.asarray(x, float), (2,)) for x in values])  # noqa: E731
    curve = None
    if any(rule.static_friction is not None for rule in rules):
        speeds = [1.0 if rule.stribeck_speed is None else rule.stribeck_speed for rule in rules]
        static = pairs([rule.static_coefficients for rule in rules])
        curve = StribeckCurve(static, jnp.stack([jnp.asarray(speed, float) for speed in speeds]))
    law = ContactLaw(
        pairs([rule.friction for rule in rules]),
        numbers("restitution"),
        numbers("tangential_restitution"),
        bounces=not all(is_zero(rule.restitution) for rule in rules),
        stribeck=curve,
        is_poisson=_is_poisson(rules),
    )
    if not any(rule.has_moments for rule in rules):
        return law
    return dataclasses.replace(law, drilling=numbers("drilling"), rolling=numbers("rolling"))


def _is_poisson(rules: Sequence[ContactRule]) -> bool:
    """Whether the contacts that bounce have Poisson's law. Raises ValueError if some have and some haven't."""
    laws = {rule.impact_law for rule in rules if not is_zero(rule.restitution)}
    if len(laws) > 1:
        raise ValueError(
            "Contacts of one model have one law of impact, as they may hit at once: give impact_law='newton' or "
            "'poisson' to all that have a `restitution`."
        )
    return laws == {"poisson"}


def _surface_velocity(rules: Sequence[ContactRule]) -> Any:
    if all(rule.surface_velocity is None for rule in rules):
        return None
    zero = np.zeros(3)
    return jnp.stack([jnp.asarray(zero if r.surface_velocity is None else r.surface_velocity, float) for r in rules])


def check_rule(model: ModelParts, rule: ContactRule) -> None:
    """Raises ValueError if the bodies of a rule can't touch, kinds of shapes have no distance, or for a bad name."""
    check_rule_name(model, rule.name)
    first, second = shapes_of(model, rule.first), shapes_of(model, rule.second)
    for (body, shape), (other, its_shape) in itertools.product(first, second):
        if body is other:
            raise ValueError(f"A contact is between two different bodies, got {body!r} twice.")
        check_distance(Pair(body, shape, other, its_shape, rule))


def check_rule_name(model: ModelParts, name: Any) -> None:
    """Raises ValueError for a name by which results would not be those of the rule, or hide others."""
    if name is None:
        return
    if not isinstance(name, str) or not name:
        raise ValueError(f"`name` of a contact must be a text that is not empty, got {short_repr(name)}.")
    bodies = (model.ground, *model.bodies)
    shapes = (shape for body in bodies for shape in body.shapes)
    if any(name == each.name for each in (*bodies, *shapes)):
        raise ValueError(
            f"`name` of a contact can't be that of a body or a shape, got {short_repr(name)}: results by that name are "
            "of all that touches it. Give another one, or none."
        )


def check_distance(pair: Pair) -> None:
    """Raises ValueError, with the names of both bodies, for shapes between which there is no distance."""
    try:
        check_pair(pair.first_shape, pair.second_shape)
    except ValueError as error:
        raise ValueError(f"{pair.first!r} and {pair.second!r} can't touch. {error}") from error
