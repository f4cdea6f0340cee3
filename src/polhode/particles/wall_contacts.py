"""Contacts of walls with history: their loads after a step."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Bool, Int

from polhode.particles.contact_history import Sides, Total, make_touch, sides
from polhode.particles.laws.contact_law import ContactLaw, History
from polhode.particles.laws.touch import Ends
from polhode.particles.walls import FAR, POSE, AbstractSmoothWall, AbstractWall, Approach, MovingWall, WallPose
from polhode.result_codes import Result
from polhode.spaces.component_arrays import Vectors, add, add_scaled, dot, rotate, scale, select, subtract
from polhode.systems.separable import Motion

if TYPE_CHECKING:
    from polhode.particles.interactions import AbstractSphereInteractions

_SHARE, _FEWEST = 4, 16
"""Spheres near walls are computed in blocks, of a quarter of all and of no fewer than these."""

_MARGIN = 1e-6
"""Distance beyond the reach of contacts up to which spheres are near, as a share of the radius: more than round-off of
places, so that contacts that end in a step are near in it."""


class Spheres(NamedTuple):
    """Some or all of the spheres."""

    sides: Sides
    radius: Array
    mass: Array


class Course(NamedTuple):
    """Motion of a wall in a step: its poses at the start and at the end, and its velocities at any time."""

    wall: MovingWall
    start: WallPose
    end: WallPose

    def surface(self, t: Any, p: Vectors, at_end: bool) -> tuple[Vectors, Vectors]:
        """Velocity of the points p of the wall and its angular velocity at t, in the middle of the step or at its
        end."""
        pose = self.end if at_end else WallPose(scale(0.5, add(self.start.shift, self.end.shift)), self.end.turn)
        return self.wall.surface_velocity(pose, t, p)


def courses(walls: tuple[AbstractWall, ...], motion: Motion, poses: Array) -> tuple[list[Course | None], Array]:
    """Motions of all walls, None for those at rest, and the poses after the step."""
    first, kind, all_courses, after = 0, motion.places.x[0].dtype, [], []
    for wall in walls:
        if not isinstance(wall, MovingWall):
            all_courses.append(None)
            continue
        part = tuple(poses[first + k] for k in range(POSE))
        first += POSE
        start = WallPose(part[:3], part[3:])
        end = jax.tree.map(lambda a: jnp.asarray(a, kind), wall.move(start, motion.t, motion.h))
        all_courses.append(Course(wall, start, end))
        after.extend((*end.shift, *end.turn))
    return all_courses, jnp.stack(after) if after else poses


def add_walls(
    system: AbstractSphereInteractions, law: ContactLaw, motion: Motion, memories: Any, poses: Array, total: Total
) -> tuple[Total, Any, Array, Array]:
    """`total` with the contacts of all walls, their memories and poses after the step, and a `Result` code."""
    x, h, radius = system.wrap(motion.places.x), motion.h, 0.5 * system.diameters
    motion = motion._replace(places=motion.places._replace(x=x))
    x0 = add_scaled(x, -h, motion.v)
    ways, poses = courses(system.walls, motion, poses)
    active = system.active(x, motion.t + h)
    active = True if active is None else active
    after, code = [], jnp.zeros((), jnp.int32)
    for wall, way, memory in zip(system.walls, ways, memories, strict=True):
        ends = (x0, x) if way is None else (way.wall.local(way.start, x0), way.wall.local(way.end, x))
        shape = wall.at_rest
        if system.is_whole and isinstance(shape, AbstractSmoothWall):
            near = NearSpheres(system, law, motion, shape, way, ends, active)
            total, memory, lost = near.add(total, memory)
            after.append(memory)
            code = jnp.maximum(code, lost)
            continue
        encounter = wall.meet(*ends, radius, memory, active)
        histories = []
        for approach in encounter.approaches:
            total, history = _add_approach(system, law, motion, way, approach, total)
            histories.append(history)
        after.append(encounter.remember(tuple(histories)))
        code = jnp.maximum(code, encounter.result)
    return total, tuple(after), poses, code


def _add_approach(
    system: AbstractSphereInteractions,
    law: ContactLaw,
    motion: Motion,
    way: Course | None,
    approach: Approach,
    total: Total,
) -> tuple[Total, History]:
    """`total` with the contacts of one approach, or of a stack of them."""
    radius = 0.5 * system.diameters

    def loop(total: Total, approach: Approach) -> tuple[Total, History]:
        spheres = Spheres(sides(system, motion, law.is_damped), radius, system.masses)
        one = lambda total, approach: _add_face(law, motion, way, spheres, approach, total)  # noqa: E731
        return (one if approach.distance.ndim == 1 else partial(jax.lax.scan, one))(total, approach)

    kind = radius.dtype
    like = lambda a: jnp.broadcast_to(jnp.asarray(a, kind), approach.distance.shape)  # noqa: E731
    approach = approach._replace(
        normal=tuple(map(like, approach.normal)), normal_before=tuple(map(like, approach.normal_before))
    )
    farthest = jnp.minimum(approach.distance, approach.before) - radius
    near = jnp.any(farthest < jnp.max(law.reach(radius)))
    return jax.lax.cond(near, loop, lambda total, approach: (total, approach.history), total, approach)


def _add_face(
    law: ContactLaw, motion: Motion, way: Course | None, spheres: Spheres, approach: Approach, total: Total
) -> tuple[Total, History]:
    (here, radius, masses), distance, h = spheres, approach.distance, motion.h
    n, n0, overlap, before = approach.normal, approach.normal_before, radius - distance, radius - approach.before
    zero = jnp.zeros_like(distance)
    levers = (distance, zero), (distance + 0.5 * (overlap - before), zero)
    ends = Ends(here.v, here.omega, (zero,) * 3)
    gains = Ends(here.dv, here.domega, (zero,) * 3)
    surface = spin = (zero,) * 3
    if way is not None:
        n0, n = rotate(way.start.turn, n0), rotate(way.end.turn, n)
        like = lambda v: tuple(jnp.broadcast_to(jnp.asarray(a, zero.dtype), zero.shape) for a in v)  # noqa: E731
        p = subtract(here.x, scale(distance, n))
        surface, spin = map(like, way.surface(motion.t + h, p, True))
        middle = add_scaled(p, -0.5 * h, subtract(here.v, scale(dot(subtract(here.v, surface), n), n)))
        surface_middle, spin_middle = map(like, way.surface(motion.t + 0.5 * h, middle, False))
        ends = Ends(subtract(here.v, surface_middle), here.omega, spin_middle)
        if gains.apart:
            turned = subtract(spin, spin_middle)
            gains = Ends(subtract(here.dv, subtract(surface, surface_middle)), here.domega, turned)
    touch = make_touch(n, (overlap, before), (radius, masses), subtract(n, n0), levers, ends, gains, h)
    action = law.act(touch, approach.history)
    stored = {"wall" if name == "contact" else name: value for name, value in action.stored.items()}
    total = total.add(touch, action._replace(stored=stored), distance, 1.0)
    if way is not None:
        total = total._replace(sums=total.sums.add_power(action, surface, spin))
    return total, action.history


class NearSpheres:
    """Contacts with one smooth wall of the spheres that are near one of its faces; no others are computed.

    **Arguments:**

    - `wall`, `way`: the wall at rest, and its motion. - `ends`: where the centres are before and after the step in the
      frame in which it rests. - `active`: which spheres touch walls; True if all do.
    """

    def __init__(
        self,
        system: AbstractSphereInteractions,
        law: ContactLaw,
        motion: Motion,
        wall: AbstractSmoothWall,
        way: Course | None,
        ends: tuple[Vectors, Vectors],
        active: Any,
    ) -> None:
        self.system, self.law, self.motion, self.wall, self.way = system, law, motion, wall, way
        self.ends, self.active, self.n = ends, active, system.n

    def add(self, total: Total, memory: History) -> tuple[Total, History, Array]:
        """`total` with these contacts, their history after the step, and a `Result` code."""
        near, code = self._near()
        if self.active is not True:
            # Springs of spheres behind an outlet are at rest when these come back.
            memory = jax.tree.map(lambda a: jnp.where(self.active, a, 0.0), memory)
        size = min(len(near) * self.n, max(-(-self.n // _SHARE), _FEWEST))
        numbers, count = _numbers(near, size)

        def one(first: Any, total: Total, memory: History) -> tuple[Total, History]:
            block = jax.lax.dynamic_slice_in_dim(numbers, first, size)
            return self._add_block(block, first + jnp.arange(size) < count, total, memory)

        def many(total: Total, memory: History) -> tuple[Total, History]:
            def add(both: tuple[Total, History], first: Array) -> tuple[tuple[Total, History], None]:
                skip = lambda first, *both: both  # noqa: E731
                return jax.lax.cond(first < count, one, skip, first, *both), None

            firsts = jnp.arange(0, len(numbers), size, dtype=jnp.int32)
            return jax.lax.scan(add, (total, memory), firsts)[0]

        none = lambda total, memory: (total, memory)  # noqa: E731
        which = jnp.where(count > 0, 1, 0) + jnp.where(count > size, 1, 0)
        total, memory = jax.lax.switch(which, [none, lambda *both: one(0, *both), many], total, memory)
        return total, memory, code

    def _near(self) -> tuple[list[Array], Array]:
        """For each face, which spheres are near it before or after the step; and a `Result` code."""
        radius = 0.5 * self.system.diameters
        reach = radius + self.law.reach(radius) + _MARGIN * radius
        near, distances = [], []
        for (before, _), (distance, _) in zip(*map(self.wall.faces, self.ends), strict=True):
            near.append(self.active & (jnp.minimum(before, distance) < reach))
            distances.append(distance)
        lost = jnp.any(self.active & self.wall.passages(*self.ends, distances, radius))
        return near, jnp.where(lost, int(Result.lost_particles), 0).astype(jnp.int32)

    def _add_block(self, numbers: Array, real: Array, total: Total, memory: History) -> tuple[Total, History]:
        """With the contacts of these numbers: of the face times n, plus the sphere."""
        law, motion, system = self.law, self.motion, self.system
        face, i = numbers // self.n, numbers % self.n
        take = lambda tree: jax.tree.map(lambda a: a[i], tree)  # noqa: E731
        spheres = Spheres(take(sides(system, motion, law.is_damped)), take(0.5 * system.diameters), take(system.masses))
        before, after = (_pick(self.wall.faces(select(x, i)), face, real) for x in self.ends)
        history = jax.tree.map(lambda a: a[face, i], memory)
        approach = Approach(*after, *before, history)
        zero = jnp.zeros_like(spheres.radius)
        own = jax.tree.map(lambda a: zero if a.ndim else jnp.zeros_like(a), total)
        own, history = _add_face(law, motion, self.way, spheres, approach, own)
        at = jnp.where(real, i, self.n)
        put = lambda a, b: a.at[at].add(b, mode="drop") if a.ndim else a + b  # noqa: E731
        remember = lambda a, b: a.at[face, at].set(b, mode="drop")  # noqa: E731
        return jax.tree.map(put, total, own), jax.tree.map(remember, memory, history)


def _numbers(near: list[Bool[Array, " n"]], size: int) -> tuple[Int[Array, " m"], Array]:
    """Numbers of those that are near, face by face, filled up with others to whole blocks; and how many there are."""
    n = len(near[0])
    room = -(-len(near) * n // size) * size
    numbers, count = jnp.zeros(room, jnp.int32), jnp.zeros((), jnp.int32)
    for face, there in enumerate(near):
        places = count + jnp.cumsum(there.astype(jnp.int32))
        put = jnp.where(there, places - 1, room)
        numbers = numbers.at[put].set(face * n + jnp.arange(n, dtype=jnp.int32), mode="drop", unique_indices=True)
        count = places[-1]
    return numbers, count


def _pick(faces: list[tuple[Array, Vectors]], which: Array, real: Array) -> tuple[Array, Vectors]:
    """Distance and normal of the face with this number; far away unless `real`."""
    like = lambda a: jnp.broadcast_to(jnp.asarray(a, faces[0][0].dtype), which.shape)  # noqa: E731
    distance, normal = faces[0][0], tuple(map(like, faces[0][1]))
    for k, (far, other) in enumerate(faces[1:], 1):
        distance = jnp.where(which == k, far, distance)
        normal = tuple(jnp.where(which == k, like(b), a) for a, b in zip(normal, other, strict=True))
    return jnp.where(real, distance, FAR), normal
