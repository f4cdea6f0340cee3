"""Which shapes of a file touch, and with which numbers."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np

from polhode.assembly.contacts import default_room
from polhode.contact import shapes
from polhode.contact.distances import check_pair, contact_points, slots
from polhode.contact.shapes import AbstractShape
from polhode.contact.shapes.shape import AbstractConvex
from polhode.importers import collision_shapes
from polhode.importers._mujoco import is_disabled, mujoco
from polhode.importers.collision_shapes import MOST_VERTICES, CollisionShape
from polhode.importers.compiled_model import CompiledModel
from polhode.importers.construction import Construction
from polhode.importers.limit_stops import restitution_of
from polhode.importers.losses import NotCarried
from polhode.importers.reach import can_meet
from polhode.importers.start_distances import StartDistances
from polhode.systems.mechanical import START_TOLERANCE

_SOLREF = (0.02, 1.0)
_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
"""MuJoCo's default softness."""


FRICTION = 0.8
"""Coefficient of files that have none."""

_AT_REST: Any = np.zeros(3), np.eye(3)
"""The frame of the ground."""

_SAME_LEVEL = 1e-12
"""Height up to which planes count as one."""

_STANDS = 0.01
"""Distance over the size of a shape up to which a point of it counts as one that stands: toes land after heels."""

_MOST_NAMES = 5
"""Bodies that a message names."""

_PLANE_DIMENSION = 3
"""That of a plane without numbers of its own: of shapes without friction the ground decides whether they slide."""


class ContactOptions(NamedTuple):
    """Arguments of `polhode.load_model` about contacts.

    - `contacts`: whether the shapes of the file touch each other as it says.
    - `floor`: a shape of the ground that all of them touch; True for a plane below them, None for none.
    - `friction`: in place of that of the file; None keeps that.
    """

    contacts: bool
    floor: AbstractShape | Literal[True] | None
    friction: Any

    @property
    def requested(self) -> bool:
        """Whether anything is to touch."""
        return self.contacts or self.floor is not None


def add_contacts(construction: Construction, compiled: CompiledModel, options: ContactOptions) -> list[NotCarried]:
    """Adds the requested shapes and contacts; returns what could not be carried over."""
    if not options.requested:
        return []
    collisions, unused = collision_shapes.read_collisions(construction, compiled.collide(construction))
    lost = [NotCarried("contacts", tuple(unused), "shapes that can't touch anything")] if unused else []
    floor, standing = _below(collisions) if options.floor is True else (options.floor, [])
    planes: list[CollisionShape] = []
    if floor is not None:
        planes = [one for one in collisions if not one.moves and _replaces(floor, one.shape, options)]
        collisions = [one for one in collisions if one.moves or not any(one is plane for plane in planes)]
        lost += _planes_above(floor, planes)
        construction.model.ground.add_shape(floor)
    if options.floor is not True:
        _check_above_ground(floor, collisions)
    for one in collisions:
        construction.model.add_shape(one.body, one.shape)
    simplified = tuple(one.link for one in collisions if one.simplified)
    if simplified:
        lost.append(NotCarried("hulls of meshes", simplified, f"they touch by hulls of some {MOST_VERTICES} vertices"))
    lost += _softness(construction, collisions)
    if floor is not None:
        for one in collisions:
            if one.moves:
                own = _numbers(construction, (one, *planes), options, least=1 if planes else _PLANE_DIMENSION)
                construction.model.add_contact(floor, one.shape, **own._asdict())
        _make_room(construction, floor, standing)
    return lost + _add_pairs(construction, collisions, options) if options.contacts else lost


def _below(collisions: Sequence[CollisionShape]) -> tuple[AbstractShape, list[CollisionShape]]:
    """The horizontal plane through the lowest point of all shapes at the start, and those that stand on it."""
    lowest = [(one, float(one.shape.bounds(one.pose)[0][2])) for one in collisions if one.moves]
    level = min((height for _, height in lowest), default=0.0)
    standing = [one for one, height in lowest if height - level <= _close_to(one)]
    return shapes.Plane(point=(0.0, 0.0, level), name="floor"), standing


def _replaces(floor: AbstractShape, shape: AbstractShape, options: ContactOptions) -> bool:
    """Whether a floor takes the place of flat or uneven ground: what lies in or below it touches nothing.

    A floor below the lowest point also takes the place of level planes above it, in which bodies start.
    """
    if not (isinstance(floor, shapes.Plane) and isinstance(shape, shapes.Plane | shapes.Heightfield)):
        return False
    level = _level_above(floor, shape)
    return level is not None and (level <= _SAME_LEVEL or (options.floor is True and isinstance(shape, shapes.Plane)))


def _level_above(floor: shapes.Plane, shape: shapes.Plane | shapes.Heightfield) -> float | None:
    """How far the highest point of the ground is above a floor with the same normal; None for another normal."""
    (x, R), (y, S) = (each.pose_in(_AT_REST) for each in (floor, shape))
    normal = np.asarray(R)[:, 2]
    highest = float(np.max(shape.heights)) if isinstance(shape, shapes.Heightfield) else 0.0
    aligned = normal @ np.asarray(S)[:, 2] > 1 - 1e-12
    return float(normal @ (np.asarray(y) - np.asarray(x))) + highest if aligned else None


def _planes_above(floor: AbstractShape, planes: Sequence[CollisionShape]) -> list[NotCarried]:
    """Planes of the file in which bodies start, so that the floor is lower."""
    if not isinstance(floor, shapes.Plane):
        return []
    flat = [(one.link, one.shape) for one in planes if isinstance(one.shape, shapes.Plane)]
    levels = {link: _level_above(floor, plane) or 0.0 for link, plane in flat}
    above = {link: level for link, level in levels.items() if level > _SAME_LEVEL}
    if not above:
        return []
    reason = f"bodies start up to {max(above.values()):.3g} below them, and the floor is there in their place"
    return [NotCarried("planes", tuple(above), reason)]


def _check_above_ground(floor: AbstractShape | None, collisions: Sequence[CollisionShape]) -> None:
    """Raises ValueError if shapes start below a floor at a height of the user's."""
    if not isinstance(floor, shapes.Plane):
        return
    depths = {one.link: depth for one in collisions if one.moves and (depth := _depth(floor, one)) > START_TOLERANCE}
    if depths:
        raise ValueError(
            f"Bodies start below the floor: {_list_depths(depths)}. Take `floor=True` for a floor at the lowest point, "
            f"lower this one by {max(depths.values()):.6g}, or start higher, by `positions` or a `keyframe`."
        )


def _depth(plane: shapes.Plane, one: CollisionShape) -> float:
    """How far the lowest point of a shape is below a plane at the start."""
    assert isinstance(one.shape, AbstractConvex)
    return -float(plane.height_of(one.shape, _AT_REST, one.pose))


def _make_room(construction: Construction, floor: AbstractShape, standing: Sequence[CollisionShape]) -> None:
    """Room for all points on which the machine stands, where they are more than there is room for by default."""
    room = default_room(construction.model)
    # Points are looked at where there may be too many.
    if sum(slots(floor, one.shape) for one in standing) > room:
        points = [contact_points(floor, _AT_REST, one.shape, one.pose).gap <= _close_to(one) for one in standing]
        count = int(sum(np.sum(np.asarray(near)) for near in points))
        if count > room:
            construction.model.limit_contacts(count)


def _close_to(one: CollisionShape) -> float:
    return _STANDS * float(one.shape.bounding_radius)


def _list_depths(depths: Mapping[str, float]) -> str:
    names = sorted(depths, key=lambda name: -depths[name])
    more = f", and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return ", ".join(f"`{name}` by {depths[name]:.3g}" for name in names[:_MOST_NAMES]) + more


class _Numbers(NamedTuple):
    friction: Any
    drilling: float = 0.0
    rolling: float = 0.0
    restitution: float = 0.0


def _numbers(
    construction: Construction, pair: Sequence[CollisionShape], options: ContactOptions, least: int = 1
) -> _Numbers:
    """Friction and restitution of geoms that touch, by MuJoCo's rules, or those of the options.

    - `least`: dimension of what they touch besides, which has no priority.
    """
    geoms = [one.geom for one in pair if one.geom is not None]
    if not geoms:
        return _Numbers(FRICTION if options.friction is None else options.friction)
    m = construction.start.compiled
    most = max(m.geom_priority[geoms])
    geoms = [geom for geom in geoms if m.geom_priority[geom] == most]
    friction = np.max(m.geom_friction[geoms], axis=0)
    dimension = max(int(np.max(m.geom_condim[geoms])), least if most <= 0 else 1)
    return _by_dimension(dimension, friction, restitution_of(m.geom_solref[geoms]), options)


def _by_dimension(dimension: int, friction: np.ndarray, restitution: float, options: ContactOptions) -> _Numbers:
    sliding = float(friction[0]) if dimension >= 3 else 0.0
    return _Numbers(
        sliding if options.friction is None else options.friction,
        float(friction[1]) if dimension >= 4 else 0.0,
        float(friction[2]) if dimension >= 6 else 0.0,
        restitution,
    )


def _add_pairs(
    construction: Construction, collisions: Sequence[CollisionShape], options: ContactOptions
) -> list[NotCarried]:
    """Contacts among the shapes of the file. Raises ValueError if bodies start in planes that they touch."""
    without_distance: list[str] = []
    overlapping: list[str] = []
    buried: dict[str, float] = {}
    distances = StartDistances(collisions)
    for first, second, numbers in _pairs(construction, collisions, options):
        name = f"{first.link}–{second.link}"
        try:
            check_pair(first.shape, second.shape)
            depth = max((_depth(*ends) for ends in _with_planes(first, second)), default=0.0)
            if depth > START_TOLERANCE:
                buried[name] = depth
            elif _of_links(construction, first, second) and distances.overlap(first, second):
                overlapping.append(name)
            elif not (first.moves and second.moves) or can_meet(construction, first, second):
                construction.model.add_contact(*_in_order(first, second), **numbers._asdict())
        except ValueError as error:
            without_distance.append(f"{name}: {str(error).rstrip('.')}")
    if buried:
        raise ValueError(
            f"Bodies start in the ground: {_list_depths(buried)}. Start higher, by `positions` or a `keyframe`, or "
            "take `floor=True`, a floor at the lowest point in place of level planes above it."
        )
    reasons = (
        (without_distance, "there is no distance between these shapes"),
        (overlapping, "they overlap at the start, and pass through each other"),
    )
    return [NotCarried("contacts", tuple(names), reason) for names, reason in reasons if names]


def _with_planes(*pair: CollisionShape) -> list[tuple[shapes.Plane, CollisionShape]]:
    """The plane of a pair, with what moves on it; nothing without a plane."""
    return [(a.shape, b) for a, b in (pair, pair[::-1]) if isinstance(a.shape, shapes.Plane) and b.moves]


def _of_links(construction: Construction, *pair: CollisionShape) -> bool:
    """Whether both are convex shapes of links: parts of machines may overlap as drawn, also those that stand still.

    A start within the surroundings, geoms of the world itself, is an error of `simulate`.
    """
    bodies = construction.start.compiled.geom_bodyid
    of_world = any(not one.moves and one.geom is not None and bodies[one.geom] == 0 for one in pair)
    return not of_world and all(isinstance(one.shape, AbstractConvex) for one in pair)


def _in_order(first: CollisionShape, second: CollisionShape) -> tuple[AbstractShape, AbstractShape]:
    """Both shapes with the kinds in one order, so that a kind of pairs has one program; the ground comes first."""
    key = lambda one: (one.moves, type(one.shape).__name__)  # noqa: E731
    ordered = sorted((first, second), key=key)
    return ordered[0].shape, ordered[1].shape


def _softness(construction: Construction, collisions: Sequence[CollisionShape]) -> list[NotCarried]:
    """Those that rigid contacts leave out of the numbers of MuJoCo's soft ones, where the file sets any."""
    m = construction.start.compiled
    geoms = [one.geom for one in collisions if one.geom is not None]
    name = lambda geom: construction.start.name(mujoco.mjtObj.mjOBJ_GEOM, geom)  # noqa: E731
    usual = lambda g: np.allclose(m.geom_solref[g], _SOLREF) and np.allclose(m.geom_solimp[g], _SOLIMP)  # noqa: E731
    soft = [g for g in geoms if not usual(g)]
    wide = [g for g in geoms if m.geom_margin[g] or m.geom_gap[g]]
    losses = (
        (soft, "softness of contacts", "contacts are rigid; solref gives their restitution alone"),
        (wide, "margins of contacts", "contacts begin at the surfaces"),
    )
    return [NotCarried(what, tuple(map(name, of)), reason) for of, what, reason in losses if of]


def _pairs(
    construction: Construction, collisions: Sequence[CollisionShape], options: ContactOptions
) -> Iterator[tuple[CollisionShape, CollisionShape, _Numbers]]:
    start, m = construction.start, construction.start.compiled
    by_geom = {one.geom: one for one in collisions if one.geom is not None}
    explicit = {}
    if not is_disabled(m, "contact"):
        for k in range(m.npair):
            ends = int(m.pair_geom1[k]), int(m.pair_geom2[k])
            if ends[0] in by_geom and ends[1] in by_geom:
                explicit[frozenset(ends)] = None
                numbers = _by_dimension(
                    int(m.pair_dim[k]), m.pair_friction[k][[0, 2, 3]], restitution_of(m.pair_solref[k]), options
                )
                yield by_geom[ends[0]], by_geom[ends[1]], numbers
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in m.exclude_signature}
    for i, first in enumerate(collisions):
        for second in collisions[i + 1 :]:
            if first.body is second.body:
                continue
            if first.geom is None or second.geom is None:
                if not _joined(construction, first, second):
                    yield first, second, _numbers(construction, (first, second), options)
                continue
            a, b = first.geom, second.geom
            masks = (m.geom_contype[a] & m.geom_conaffinity[b]) | (m.geom_contype[b] & m.geom_conaffinity[a])
            bodies = int(m.geom_bodyid[a]), int(m.geom_bodyid[b])
            related = _related(start, *bodies)
            if masks and not related and not {bodies, bodies[::-1]} & excluded and frozenset((a, b)) not in explicit:
                yield first, second, _numbers(construction, (first, second), options)


def _related(start: Any, first: int, second: int) -> bool:
    """Whether one body carries the other, which MuJoCo keeps from touching unless it is the world."""
    a, b = start.carrier(first), start.carrier(second)
    parents = [start.carrier(int(start.compiled.body_parentid[body])) for body in (a, b)]
    return a != 0 and b != 0 and (parents[0] == b or parents[1] == a)


def _joined(construction: Construction, first: CollisionShape, second: CollisionShape) -> bool:
    """The same of links of formats without masks, among which the ground counts as well."""
    numbers = [n for n, body in construction.carriers.items() if body in (first.body, second.body)]
    if len(numbers) < 2:
        return True
    a, b = numbers[:2]
    parents = [construction.start.carrier(int(construction.start.compiled.body_parentid[body])) for body in (a, b)]
    return parents[0] == b or parents[1] == a


def read_floor(value: Any) -> AbstractShape | Literal[True] | None:
    """The floor of the arguments of `load_model`: a plane at a height, or a shape. Raises ValueError for others."""
    if value is None or value is False:
        return None
    if value is True or isinstance(value, AbstractShape):
        return value
    try:
        return shapes.Plane(point=(0.0, 0.0, float(value)), name="floor")
    except (TypeError, ValueError):
        raise ValueError(
            "`floor` must be True for a plane below the robot, its height, or a shape such as "
            f"polhode.shapes.Plane(…), got {value!r}."
        ) from None
