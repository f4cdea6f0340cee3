"""Contacts of models with many free bodies: shapes by kinds, rules in a table, pairs in lists."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.assembly.contacts import Pair, check_distance, kind_of, law_of, plain_shape
from polhode.assembly.coordinate_layout import AbstractLayout
from polhode.assembly.rule_table import RuleTable
from polhode.contact.distances import slots
from polhode.contact.shapes import AbstractShape, Sphere
from polhode.contact.sparse.listed_contacts import ListedContacts
from polhode.contact.sparse.shape_table import PairKind, ShapeTable, round_up
from polhode.linalg.blocks import Indices
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.groups import stack_trees

if TYPE_CHECKING:
    from polhode.multibody.parts import ModelParts

LISTED = 200
"""Points that could touch in all, above which contacts of free bodies are in lists. Of boxes on a floor, nine have 180
and ten have 220: in fixed slots, six take 30 ms a step."""

_POINTS, _POINTS_OF_SPHERE = 10, 5
"""Room for points that touch, for each body. Heaps of boxes have 4 to 5 each, walls 8, spheres 2 to 3."""

_PAIRS = 8
"""Room for pairs in lists, for each body: those that touch, and those that may soon."""

_LARGE = 4.0
"""Times the median radius from which a shape is compared with all others."""


def build_listed_contacts(model: ModelParts, layout: AbstractLayout, table: RuleTable) -> ListedContacts | None:
    """The contacts of a model of many free bodies in lists; None for models that are not such."""
    if _obstacle(model, layout, table):
        return None
    groups: dict[Hashable, list[int]] = {}
    for k, (_, shape) in enumerate(table.shapes):
        groups.setdefault(kind_of(plain_shape(shape)), []).append(k)
    order = np.concatenate(list(groups.values()))
    allowed = table.with_law(model, "rigid")[np.ix_(order, order)]
    rules = np.where(allowed, table.rules[np.ix_(order, order)], -1)
    shapes = [table.shapes[k] for k in order]
    kinds = tuple(stack_trees([plain_shape(table.shapes[k][1]) for k in members]) for members in groups.values())
    slot = lambda body: layout.slot((body,)).nodes.numbers.reshape(-1)[0]  # noqa: E731
    nodes = tuple(Indices(np.array([slot(table.shapes[k][0]) for k in members])) for members in groups.values())
    radius = np.array([float(shape.as_arrays().bounding_radius) for _, shape in shapes])
    sizes = [len(members) for members in groups.values()]
    used = np.flatnonzero(np.any(allowed, axis=1))
    median = np.median(radius[used][np.isfinite(radius[used])])
    still = [k for k in used.tolist() if not radius[k] <= _LARGE * median]
    room = _room(model, shapes, used, still)
    pair_kinds = _pair_kinds(model, shapes, kinds, sizes, rules, np.array(still, int), room)
    return ListedContacts(
        table=ShapeTable(kinds, nodes, jnp.asarray(radius), jnp.asarray(rules), pair_kinds, tuple(still)),
        law=law_of(model.contact_rules),
        shape_names=tuple((body.name, shape.name) for body, shape in shapes),
        rule_names=tuple(rule.name for rule in model.contact_rules),
        room=room,
    )


def _obstacle(model: ModelParts, layout: AbstractLayout, table: RuleTable) -> bool:
    """Whether something keeps contacts from lists: joints, forces, other coordinates, or few bodies."""
    bodies = [body for body in model.bodies]
    if model.parts or not layout.holds_free_bodies or any(body.kind != "rigid" for body in bodies):
        return True
    if any(x is not None for rule in model.contact_rules for x in (rule.surface_velocity, rule.static_friction)):
        return True
    numbers = [(shape, body.mass, body.inertia) for body, shape in table.shapes]
    rules = [(rule.friction, rule.restitution, rule.drilling, rule.rolling) for rule in model.contact_rules]
    if not checks.is_concrete(numbers, rules):
        return True
    allowed = np.triu(table.with_law(model, "rigid"))
    return int(np.sum(allowed)) * 4 <= LISTED or _points(table, allowed) <= LISTED


def _points(table: RuleTable, allowed: np.ndarray) -> int:
    """Points that could touch in all."""
    total = 0
    for one, other in zip(*np.nonzero(allowed), strict=True):
        total += slots(table.shapes[one][1], table.shapes[other][1])
        if total > LISTED:
            break
    return total


def _room(model: ModelParts, shapes: Sequence[Any], used: np.ndarray, still: Sequence[int]) -> int:
    """How many points may touch at a time."""
    if model.contact_capacity is not None:
        return model.contact_capacity
    moving = [shapes[k][1] for k in used.tolist() if k not in set(still)]
    return sum(_POINTS_OF_SPHERE if isinstance(shape, Sphere) else _POINTS for shape in moving) + 8


def _pair_kinds(
    model: ModelParts,
    shapes: Sequence[tuple[Body, AbstractShape]],
    kinds: Sequence[AbstractShape],
    sizes: Sequence[int],
    rules: np.ndarray,
    still: np.ndarray,
    room: int,
) -> tuple[PairKind, ...]:
    """Kinds of pairs that rules let touch, with room for as many as bodies can have neighbours."""
    starts = np.cumsum([0, *sizes])
    moves = np.ones(len(shapes), bool)
    moves[still] = False
    result = []
    for a in range(len(kinds)):
        for b in range(a, len(kinds)):
            part = rules[starts[a] : starts[a + 1], starts[b] : starts[b + 1]] >= 0
            if not part.any():
                continue
            one, other = (int(x) for x in np.argwhere(part)[0])
            (one_body, one_shape), (other_body, other_shape) = shapes[starts[a] + one], shapes[starts[b] + other]
            check_distance(Pair(one_body, one_shape, other_body, other_shape, model.contact_rules[0]))
            mine = [moves[starts[k] : starts[k + 1]] for k in (a, b)]
            both = part & mine[0][:, None] & mine[1][None, :]
            everything = int(part.sum()) // (2 if a == b else 1)
            free = int(both.sum()) // (2 if a == b else 1)
            near = min(free, max(room, _PAIRS * min(int(mine[0].sum()), int(mine[1].sum()))))
            result.append(PairKind(a, b, round_up(everything - free + near)))
    return tuple(result)
