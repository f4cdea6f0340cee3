"""Which shapes of a file touch, and with which numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Literal, NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode.contact import shapes
from polhode.contact.distances import check_pair
from polhode.contact.shapes import AbstractShape
from polhode.importers import collision_shapes
from polhode.importers._mujoco import is_disabled, mujoco
from polhode.importers.collision_shapes import MOST_VERTICES, CollisionShape
from polhode.importers.compiled_model import CompiledModel
from polhode.importers.construction import Construction
from polhode.importers.limit_stops import restitution_of
from polhode.importers.losses import NotCarried
from polhode.importers.reach import can_meet
from polhode.importers.start_distances import StartDistances

_SOLREF = (0.02, 1.0)
_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
"""MuJoCo's default softness."""


FRICTION = 0.8
"""Coefficient of files that have none."""

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
    floor = _below(collisions) if options.floor is True else options.floor
    planes: list[CollisionShape] = []
    if floor is not None:
        planes = [one for one in collisions if not one.moves and _covers(floor, one.shape)]
        collisions = [one for one in collisions if one.moves or not _covers(floor, one.shape)]
        construction.model.ground.add_shape(floor)
    for one in collisions:
        construction.model.add_shape(one.body, one.shape)
    lost = [NotCarried("contacts", tuple(unused), "shapes that can't touch anything")] if unused else []
    simplified = tuple(one.link for one in collisions if one.simplified)
    if simplified:
        lost.append(NotCarried("hulls of meshes", simplified, f"they touch by hulls of some {MOST_VERTICES} vertices"))
    lost += _softness(construction, collisions)
    if floor is not None:
        for one in collisions:
            if one.moves:
                own = _numbers(construction, (one, *planes), options, least=1 if planes else _PLANE_DIMENSION)
                construction.model.add_contact(floor, one.shape, **own._asdict())
    return lost + _add_pairs(construction, collisions, options) if options.contacts else lost


def _below(collisions: Sequence[CollisionShape]) -> AbstractShape:
    """The horizontal plane through the lowest point of all shapes at the start."""
    lowest = [float(one.shape.bounds(one.pose)[0][2]) for one in collisions if one.moves]
    return shapes.Plane(point=(0.0, 0.0, min(lowest, default=0.0)), name="floor")


def _covers(floor: AbstractShape, shape: AbstractShape) -> bool:
    """Whether flat or uneven ground lies in or below a plane with the same normal, so that nothing touches it."""
    if not (isinstance(floor, shapes.Plane) and isinstance(shape, shapes.Plane | shapes.Heightfield)):
        return False
    (x, R), (y, S) = (each.pose_in((jnp.zeros(3), jnp.eye(3))) for each in (floor, shape))
    normal = np.asarray(R)[:, 2]
    highest = float(np.max(shape.heights)) if isinstance(shape, shapes.Heightfield) else 0.0
    aligned = normal @ np.asarray(S)[:, 2] > 1 - 1e-12
    return bool(aligned and normal @ (np.asarray(y) - np.asarray(x)) + highest <= 1e-12)


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
    """Contacts among the shapes of the file."""
    without_distance: list[str] = []
    overlapping: list[str] = []
    distances = StartDistances(collisions)
    for first, second, numbers in _pairs(construction, collisions, options):
        name = f"{first.link}–{second.link}"
        try:
            check_pair(first.shape, second.shape)
            both_move = first.moves and second.moves
            # A start within the ground is an error of `simulate`.
            if both_move and distances.overlap(first, second):
                overlapping.append(name)
            elif not both_move or can_meet(construction, first, second):
                construction.model.add_contact(*_in_order(first, second), **numbers._asdict())
        except ValueError as error:
            without_distance.append(f"{name}: {str(error).rstrip('.')}")
    reasons = (
        (without_distance, "there is no distance between these shapes"),
        (overlapping, "they overlap at the start, and pass through each other"),
    )
    return [NotCarried("contacts", tuple(names), reason) for names, reason in reasons if names]


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
