"""Contacts of rods in a model: which rods, bodies and shapes touch, and the elements of their edges."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.assembly.contacts import joint_pairs, plain_shape, shapes_of
from polhode.assembly.coordinate_layout import AbstractLayout
from polhode.assembly.element_groups import kind_of
from polhode.checks import short_repr
from polhode.contact.distances import slots
from polhode.contact.rules import ContactRule
from polhode.contact.shapes import AbstractShape, Sphere
from polhode.linalg.blocks import Indices
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.groups import ForceGroup, stack_trees
from polhode.multibody.mechanism.near_forces import NearParts
from polhode.multibody.mechanism.poses import Pose
from polhode.rods.contact_law import LineLaw, depth_of_impact
from polhode.rods.pressed_edge import PressedEdge
from polhode.rods.rod import Rod
from polhode.rods.rod_pairs import EdgeTable, RodPairs
from polhode.rods.shape_contact import RodShapeContact

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts


class RodShapePair(NamedTuple):
    """A rod and a shape that may touch, with the body of the shape and the rule."""

    rod: Rod
    body: Body
    shape: AbstractShape
    rule: ContactRule

    @property
    def name(self) -> str:
        """Of the contact in results: that of the rule, or those of rod and body."""
        return self.rule.name or f"{self.rod.name}/{self.body.name}"


def is_of_rods(first: Any, second: Any) -> bool:
    """Whether a contact between these is one of rods."""
    return isinstance(first, Rod) or isinstance(second, Rod)


def check_rod_rule(model: ModelParts, rule: ContactRule) -> None:
    """Raises ValueError for rules that rods can't follow, with the remedy."""
    for end in (rule.first, rule.second):
        if isinstance(end, Rod):
            _check_rod(model, end)
    _check_law(rule)
    if isinstance(rule.first, Rod) and isinstance(rule.second, Rod):
        _check_between_rods(rule)
    if rule.surface_velocity is not None:
        raise ValueError(
            f"Contacts of rods have no `surface_velocity`, got {short_repr(rule.surface_velocity)}: move the body with "
            "the shape, such as by `joints.Revolute` with a prescribed motion."
        )
    for end in (rule.first, rule.second):
        if isinstance(end, Rod):
            continue
        for body, shape in shapes_of(model, end):
            _check_shape(body, shape)


def _check_rod(model: ModelParts, rod: Rod) -> None:
    if not any(rod is each for each in model.rods):
        raise ValueError(f"{rod!r} is not a rod of this model.")
    radius = rod.contact_radius
    if checks.is_concrete(radius) and not float(np.asarray(radius)) > 0:
        raise ValueError(f"{rod!r} has sections of unknown radius: give `radius=` to `add_rod`, for contact.")


def _check_between_rods(rule: ContactRule) -> None:
    if rule.slip_speed is None and not checks.is_zero(rule.friction):
        raise ValueError(
            f"Friction between rods, here {short_repr(rule.friction)}, needs `slip_speed`: the speed over which it "
            "builds up, and with which loads creep. Take a thousandth of usual speeds, or friction=0."
        )


def _check_law(rule: ContactRule) -> None:
    if rule.law != "compliant":
        raise ValueError(
            "Rods touch by law='compliant', with a `stiffness` per length of the rod. For law='rigid' "
            "give their nodes shapes, `node.add_shape(polhode.shapes.Sphere(…))` for each of `rod.nodes`, and let "
            "these touch."
        )
    if np.ndim(rule.friction) != 0:
        raise ValueError(f"Friction of rods is the same in all directions: give one number, got {rule.friction!r}.")


def _check_shape(body: Body, shape: AbstractShape) -> None:
    if slots(shape, Sphere(1.0)) != 1:
        raise ValueError(
            f"Rods don't touch {short_repr(shape)} of {body!r}: make it of convex shapes and planes, such as "
            "`polhode.shapes.ConvexMesh`."
        )


def shape_pairs(model: ModelParts) -> Iterator[RodShapePair]:
    """Rods and shapes that rules let touch, each pair once: later rules replace earlier ones."""
    chosen: dict[tuple[int, int, int], RodShapePair] = {}
    for rule in model.contact_rules:
        for rod, body, shape in _shape_ends(model, rule):
            key = id(rod), id(body), id(shape)
            chosen.pop(key, None)
            chosen[key] = RodShapePair(rod, body, shape, rule)
    yield from chosen.values()


def _shape_ends(model: ModelParts, rule: ContactRule) -> Iterator[tuple[Rod, Body, AbstractShape]]:
    if rule.first is None:
        without = {frozenset((id(a), id(b))) for a, b in rule.without}
        bodies = [body for body in (model.ground, *model.bodies) if body.shapes]
        for rod in (each for each in model.rods if each.touches):
            for body in bodies:
                if frozenset((id(rod), id(body))) not in without and body.rod != rod.name:
                    _check_general(rod, body, rule)
                    yield from ((rod, body, shape) for shape in body.shapes)
        return
    if rule.of_rods and not (isinstance(rule.first, Rod) and isinstance(rule.second, Rod)):
        rod, other = (rule.first, rule.second) if isinstance(rule.first, Rod) else (rule.second, rule.first)
        yield from ((rod, body, shape) for body, shape in shapes_of(model, other))


def _check_general(rod: Rod, body: Body, rule: ContactRule) -> None:
    """Raises ValueError if a rule of all bodies is none for a rod that has a radius."""
    try:
        _check_law(rule)
        for shape in body.shapes:
            _check_shape(body, shape)
    except ValueError as error:
        raise ValueError(
            f"`contacts` lets {rod!r} and {body!r} touch, because the rod has a `radius` of its own. {error} Or leave "
            f"the pair out, `contacts(without=[(rod, body)])`, or give no `radius` to `add_rod` and take `add_contact`."
        ) from error


def rod_shape_contacts(model: ModelParts) -> list[tuple[str, RodShapeContact]]:
    """The elements of all edges that may touch shapes, with names that are unique."""
    gravity = jnp.sqrt(jnp.sum(jnp.square(jnp.asarray(model.gravity))))
    joined = joint_pairs(model)
    contacts = []
    for pair in shape_pairs(model):
        number = next(k for k, shape in enumerate(pair.body.shapes) if shape is pair.shape)
        for e in edges_of(pair, joined):
            name = f"{pair.rod.edges[e].name}/{pair.body.name}-{number + 1}"
            contacts.append((name, _contact(pair, e, gravity)))
    return contacts


def edges_of(pair: RodShapePair, joined: set[frozenset[int]]) -> list[int]:
    """Numbers of the edges that may touch the shape: all, but by a rule of all bodies those joined to the body."""
    rod, body = pair.rod, pair.body
    if pair.rule.of_rods:
        return list(range(len(rod.edges)))
    held = [node is body or frozenset((id(node), id(body))) in joined for node in rod.nodes]
    return [e for e in range(len(rod.edges)) if not (held[e] or held[(e + 1) % len(held)])]


def _contact(pair: RodShapePair, e: int, gravity: Any) -> RodShapeContact:
    rod, edge = pair.rod, pair.rod.edges[e]
    ends = (not rod.closed and e == 0, not rod.closed and e == len(rod.edges) - 1)
    radius = rod.contact_radius
    # Free ends are caps, half a sphere as wide as the rod.
    tips = None if not any(ends) else [radius if end else 0.0 for end in ends]
    tips = None if tips is None else jnp.stack([jnp.asarray(tip, float) for tip in tips])
    shape, mass = plain_shape(pair.shape), rod.sections[e].mass
    return RodShapeContact(
        edge.first, edge.second, edge.shape, radius, tips, mass, pair.body, shape, pair.rule, gravity,
        rod=pair.rod.name,
    )  # fmt: skip


def rods_touch(model: ModelParts) -> bool:
    """Whether rules let rods touch rods."""
    return bool(_chosen_rods(model))


def _chosen_rods(model: ModelParts) -> list[tuple[Rod, Rod, ContactRule]]:
    """Pairs of rods that may touch, each once: later rules replace earlier ones."""
    chosen: dict[frozenset[int], tuple[Rod, Rod, ContactRule]] = {}
    for rule in model.contact_rules:
        for first, second in _rod_ends(model, rule):
            chosen[frozenset((id(first), id(second)))] = first, second, rule
    return list(chosen.values())


def rod_contact_names(model: ModelParts) -> list[list[str]]:
    """Names of the rods and of what they may touch, pair by pair."""
    bodies = {(pair.rod.name, pair.body.name) for pair in shape_pairs(model)}
    return [list(pair) for pair in sorted(bodies | {(a.name, b.name) for a, b, _ in _chosen_rods(model)})]


def rod_pairs(model: ModelParts, layout: AbstractLayout) -> tuple[RodPairs, ...]:
    """Contacts of rods with rods and with themselves, one for all pairs of a rule, in the rows of a layout."""
    by_rule: dict[int, list[tuple[Rod, Rod, ContactRule]]] = {}
    for pair in _chosen_rods(model):
        by_rule.setdefault(id(pair[2]), []).append(pair)
    gravity = jnp.sqrt(jnp.sum(jnp.square(jnp.asarray(model.gravity))))
    return tuple(_pairs_of_rule(layout, pairs, gravity) for pairs in by_rule.values())


def _rod_ends(model: ModelParts, rule: ContactRule) -> Iterator[tuple[Rod, Rod]]:
    """Pairs of rods that a rule lets touch; twice the same for one that touches itself."""
    if rule.first is None:
        without = {frozenset((id(a), id(b))) for a, b in rule.without}
        rods = [rod for rod in model.rods if rod.touches]
        for pair in itertools.combinations_with_replacement(rods, 2):
            if frozenset(map(id, pair)) not in without:
                _check_law(rule)
                _check_between_rods(rule)
                yield pair
    elif isinstance(rule.first, Rod) and isinstance(rule.second, Rod):
        yield rule.first, rule.second


def _pairs_of_rule(layout: AbstractLayout, pairs: Sequence[tuple[Rod, Rod, ContactRule]], gravity: Any) -> RodPairs:
    rods = list({id(rod): rod for first, second, _ in pairs for rod in (first, second)}.values())
    number = {id(rod): k for k, rod in enumerate(rods)}
    touches = np.zeros((len(rods),) * 2, bool)
    for first, second, _ in pairs:
        a, b = number[id(first)], number[id(second)]
        touches[a, b] = touches[b, a] = True
    bodies = [body for rod in rods for body in rod.nodes]
    starts = np.cumsum([0] + [len(rod.nodes) for rod in rods])
    ends = [(n + np.arange(len(rod.edges)), n + (np.arange(len(rod.edges)) + 1) % len(rod.nodes))
            for n, rod in zip(starts, rods, strict=False)]  # fmt: skip
    join = lambda values: jnp.concatenate([jnp.asarray(x) for x in values])  # noqa: E731
    each = lambda of: join([jnp.broadcast_to(of(rod), len(rod.edges)) for rod in rods])  # noqa: E731
    along = [jnp.concatenate((jnp.zeros(1), jnp.cumsum(rod.lengths))) for rod in rods]
    tip = lambda place: np.concatenate(  # noqa: E731
        [(np.arange(len(rod.edges)) == place % len(rod.edges)) & (not rod.closed) for rod in rods]
    )
    table = EdgeTable(
        first=Indices(np.concatenate([a for a, _ in ends])),
        second=Indices(np.concatenate([b for _, b in ends])),
        length=join([rod.lengths for rod in rods]),
        radius=each(lambda rod: jnp.asarray(rod.contact_radius, float)),
        start=join([s[:-1] for s in along]),
        stop=join([s[1:] for s in along]),
        turn=join(
            [jnp.full(len(rod.edges), s[-1] if rod.closed else jnp.inf) for rod, s in zip(rods, along, strict=True)]
        ),
        rod=jnp.asarray(np.repeat(np.arange(len(rods), dtype=np.int32), [len(rod.edges) for rod in rods])),
        opens=jnp.asarray(tip(0)),
        closes=jnp.asarray(tip(-1)),
        touches=jnp.asarray(touches),
    )
    clamped = np.array([k for k, body in enumerate(bodies) if body.kind == "ground"], int)
    clamps = [Pose(rod.places.x[k], rod.places.R[k])
              for rod in rods for k, body in enumerate(rod.nodes) if body.kind == "ground"]  # fmt: skip
    none = Pose(jnp.zeros((0, 3)), jnp.zeros((0, 3, 3)))
    rows = np.array([layout.slot((body,)).nodes.numbers.reshape(-1)[0] for body in bodies])
    law = LineLaw.of(pairs[0][2])
    nodes = [(bodies[a], bodies[b]) for a, b in zip(table.first.numbers, table.second.numbers, strict=True)]
    at = stack_trees(clamps) if clamps else none
    return RodPairs(
        table=table, law=law, rows=Indices(rows), clamped=Indices(clamped), clamps=at, parts=_parts(layout, nodes),
        stiffest=_limits(layout, rods, pairs[0][2], gravity), rods=tuple(rod.name for rod in rods),
    )  # fmt: skip


def _limits(layout: AbstractLayout, rods: Sequence[Rod], rule: ContactRule, gravity: Any) -> tuple[ForceGroup, ...]:
    """The edges as others press them, by kinds."""
    law, square = LineLaw.of(rule), _square_speed(rods, rule)
    kinds: dict[Any, list[tuple[tuple[Body, Body], PressedEdge]]] = {}
    for rod in rods:
        for edge, section in zip(rod.edges, rod.sections, strict=True):
            depth = jax.lax.stop_gradient(depth_of_impact(law, section.mass, square, gravity))
            element = PressedEdge(edge.shape, jnp.asarray(rod.contact_radius, float), law, depth)
            nodes = edge.first, edge.second
            kinds.setdefault((kind_of(element), *map(layout.kind, nodes)), []).append((nodes, element))
    return tuple(
        ForceGroup(
            stack_trees([element for _, element in own]),
            tuple(layout.slot(ends) for ends in zip(*(nodes for nodes, _ in own), strict=True)),
        )
        for own in kinds.values()
    )


def _square_speed(rods: Sequence[Rod], rule: ContactRule) -> Any:
    """The square of the speed of an impact: of the rule, or the largest between nodes at the start."""
    if rule.impact_speed is not None:
        return jnp.asarray(rule.impact_speed, float) ** 2
    speeds = jnp.stack([jnp.asarray(body.u, float) for rod in rods for body in rod.nodes])
    return jnp.sum(jnp.square(jnp.max(speeds, axis=0) - jnp.min(speeds, axis=0)))


def _parts(layout: AbstractLayout, nodes: Sequence[tuple[Body, Body]]) -> tuple[NearParts, ...]:
    """Edges between nodes by the kinds of these."""
    kinds: dict[Any, list[int]] = {}
    for k, pair in enumerate(nodes):
        kinds.setdefault(tuple(layout.kind(body) for body in pair), []).append(k)
    return tuple(
        NearParts(
            Indices(np.array(own)), (layout.slot([nodes[k][0] for k in own]), layout.slot([nodes[k][1] for k in own]))
        )
        for own in kinds.values()
    )
