"""Walls that contain spheres, at rest or in a prescribed motion."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.result_codes import Result
from polhode.spaces import quaternions
from polhode.spaces.component_arrays import (
    Quaternions,
    Vectors,
    add,
    add_scaled,
    conjugate,
    cross,
    dot,
    multiply,
    rotate,
    scale,
    subtract,
    unit,
)
from polhode.time_functions import breakpoints_of

_GAUSS = (0.5 - 0.5 * 0.6**0.5, 0.5, 0.5 + 0.5 * 0.6**0.5), (5 / 18, 8 / 18, 5 / 18)
"""Nodes and weights of the rule of order 6 on [0, 1]."""

FAR = 1e30
"""Distance of spheres that touch nothing."""

POSE = 7
"""Numbers in the pose of a wall that moves: displacement and unit quaternion."""


class WallPose(NamedTuple):
    """Displacement of a wall's centre and its rotation since the start, scalars each."""

    shift: Vectors
    turn: Quaternions


class Approach(NamedTuple):
    """Spheres and one face of a wall in a step, in the frame in which the wall rests.

    - `distance`, `normal`: of the centres from the face at the end of the step; the normal points to them.
    - `before`, `normal_before`: the same at its start. - `history`: what contacts remember from there.

    Arrays have shape (n,), or (k, n) for k faces each.
    """

    distance: Array
    normal: Vectors
    before: Array
    normal_before: Vectors
    history: Any


class Encounter(NamedTuple):
    """All approaches of spheres with a wall; `remember` makes the memory from the histories after; a `Result` code."""

    approaches: tuple[Approach, ...]
    remember: Callable[[tuple[Any, ...]], Any]
    result: Any


class AbstractWall(eqx.Module):
    """A wall of any shape."""

    moves: ClassVar[bool] = False
    """Whether it has a pose in states."""

    @property
    @abc.abstractmethod
    def needs_law(self) -> bool:
        """Whether its contacts need a `ContactLaw`."""

    @abc.abstractmethod
    def prepare(self, reach: Array) -> AbstractWall:
        """The wall for spheres whose centres it can touch from this distance."""

    @abc.abstractmethod
    def start(self, law: Any, n: int, dtype: Any) -> Any:
        """The memory of its contacts with n spheres without history."""

    @abc.abstractmethod
    def meet(self, x0: Vectors, x: Vectors, radius: Array, memory: Any, active: Any = True) -> Encounter:
        """Contacts of spheres that move from x0 to x, in the frame in which the wall rests; of those that are
        `active`."""

    @property
    def at_rest(self) -> AbstractWall:
        """The wall in the frame in which it rests."""
        return self


class AbstractSmoothWall(AbstractWall):
    """A wall with a fixed number of smooth faces, each of which a sphere touches once at most."""

    @abc.abstractmethod
    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        """Distance from points to each face, positive inside, and the unit normal there, pointing inside."""

    def passages(self, x0: Vectors, x: Vectors, distances: list[Array], radius: Array) -> Array:
        """Which spheres that move from x0 to x have passed through a face; `distances` are those of x from each."""
        del x0, x
        return jnp.any(jnp.stack([distance < -2 * radius for distance in distances]), axis=0)

    @property
    def needs_law(self) -> bool:
        return False

    def prepare(self, reach: Array) -> AbstractWall:
        del reach
        return self

    def start(self, law: Any, n: int, dtype: Any) -> Any:
        return law.start((self.face_count, n), dtype)

    @property
    def face_count(self) -> int:
        return len(jax.eval_shape(lambda: self.faces((jnp.zeros(1),) * 3)))

    def meet(self, x0: Vectors, x: Vectors, radius: Array, memory: Any, active: Any = True) -> Encounter:
        near = lambda faces: [(jnp.where(active, distance, FAR), n) for distance, n in faces]  # noqa: E731
        now, before = near(self.faces(x)), near(self.faces(x0))
        old = (jax.tree.map(lambda a, k=k: a[k], memory) for k in range(len(now)))
        approaches = tuple(Approach(*a, *b, history) for a, b, history in zip(now, before, old, strict=True))
        through = self.passages(x0, x, [distance for distance, _ in now], radius)
        lost = jnp.where(jnp.any(through), int(Result.lost_particles), 0)
        stack = lambda histories: jax.tree.map(lambda *a: jnp.stack(a), *histories)  # noqa: E731
        return Encounter(approaches, stack, lost.astype(jnp.int32))


class Plane(AbstractSmoothWall):
    """A plane; particles are on the side that its normal points to.

    **Arguments:**

    - `point`: any point of it, shape (3,). - `normal`: any length, shape (3,).
    """

    point: Float[Array, "3"]
    normal: Float[Array, "3"]

    def __init__(self, point: Any = (0.0, 0.0, 0.0), normal: Any = (0.0, 0.0, 1.0)) -> None:
        self.point = checks.array("point", point, (3,), "a point of the plane")
        self.normal = direction("normal", normal)

    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        normal = tuple(self.normal.astype(x[0].dtype))
        return [(dot(normal, subtract(x, tuple(self.point.astype(x[0].dtype)))), normal)]


class Box(AbstractSmoothWall):
    """A box around the particles, edges along the axes.

    **Arguments:**

    - `lower`, `upper`: its corners, shape (3,); infinite where it is open.
    """

    lower: Float[Array, "3"]
    upper: Float[Array, "3"]

    def __init__(self, lower: Any, upper: Any) -> None:
        for name, value in (("lower", lower), ("upper", upper)):
            if not checks.is_concrete(value):
                continue
            corner = checks.numbers(name, value, "a corner of the box")
            if corner.shape != (3,) or np.any(np.isnan(corner)):
                raise ValueError(f"`{name}` must be three numbers (a corner of the box), got {short_repr(value)}.")
        self.lower, self.upper = jnp.asarray(lower, float), jnp.asarray(upper, float)
        if checks.is_concrete(lower, upper) and not np.all(np.asarray(lower) < np.asarray(upper)):
            raise ValueError(
                f"`lower` must be below `upper` in all three directions, got {short_repr(lower)} and "
                f"{short_repr(upper)}."
            )

    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        box_faces = []
        for k in range(3):
            for corner, sign in ((self.lower, 1.0), (self.upper, -1.0)):
                normal = tuple(sign if i == k else 0.0 for i in range(3))
                box_faces.append((sign * (x[k] - corner[k].astype(x[k].dtype)), normal))
        return box_faces


class Cylinder(AbstractSmoothWall):
    """The inside of a cylinder without ends.

    **Arguments:**

    - `radius`. - `point`: any point of its axis. - `axis`: direction, any length.
    """

    radius: Float[Array, ""]
    point: Float[Array, "3"]
    axis: Float[Array, "3"]

    def __init__(self, radius: Any, point: Any = (0.0, 0.0, 0.0), axis: Any = (0.0, 0.0, 1.0)) -> None:
        self.radius = checks.positive("radius", radius, (), "radius of the cylinder")
        self.point = checks.array("point", point, (3,), "a point of the axis")
        self.axis = direction("axis", axis)

    def faces(self, x: Vectors) -> list[tuple[Array, Vectors]]:
        kind = x[0].dtype
        axis = tuple(self.axis.astype(kind))
        d = subtract(x, tuple(self.point.astype(kind)))
        across = add_scaled(d, -dot(d, axis), axis)
        square = dot(across, across)
        off = square > 0
        length = jnp.sqrt(jnp.where(off, square, 1.0))
        inward = scale(jnp.where(off, -1 / length, 0.0), across)
        return [(self.radius.astype(kind) - jnp.where(off, length, 0.0), inward)]


class MovingWall(AbstractWall):
    """A wall in a prescribed motion: a belt, a drum, a plate that vibrates. Its contacts need a `ContactLaw`.

    Points of the wall have the velocity V + ω × (p - c), c the centre, which moves with V. States hold its pose, which
    is the integral of both: by Gauss' rule of order 6 in a step, and, where the axis of rotation turns, by Magnus'
    rule of order 4. The work that it does is `run.outputs["wall_work"]`.

    ```python
    drum = MovingWall(Cylinder(0.1, axis=(0, 1, 0)), angular_velocity=(0, 1.5, 0))
    plate = MovingWall(Plane(), velocity=lambda t: (0, 0, 0.1 * jnp.cos(60 * t)))
    ```

    **Arguments:**

    - `wall`: any other wall, where it is at the start. - `velocity`: V, shape (3,), numbers or a function of time.
    - `angular_velocity`: ω in the inertial frame, the same. - `centre`: c at the start, shape (3,).

    Raises ValueError for walls that move already, and for other shapes.
    """

    moves: ClassVar[bool] = True

    wall: AbstractWall
    velocity: Any
    angular_velocity: Any
    centre: Float[Array, "3"]

    def __init__(
        self,
        wall: AbstractWall,
        velocity: Any = (0.0, 0.0, 0.0),
        angular_velocity: Any = (0.0, 0.0, 0.0),
        centre: Any = (0.0, 0.0, 0.0),
    ) -> None:
        if not isinstance(wall, AbstractWall) or wall.moves:
            raise ValueError(f"`wall` must be a wall that doesn't move by itself, got {short_repr(wall)}.")
        self.wall = wall
        self.velocity = _vector_of_time("velocity", velocity)
        self.angular_velocity = _vector_of_time("angular_velocity", angular_velocity)
        self.centre = checks.array("centre", centre, (3,), "a point of the wall")

    @property
    def needs_law(self) -> bool:
        return True

    @property
    def at_rest(self) -> AbstractWall:
        return self.wall

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Where its velocities jump."""
        return breakpoints_of(self.velocity, self.angular_velocity)

    def prepare(self, reach: Array) -> MovingWall:
        return MovingWall(self.wall.prepare(reach), self.velocity, self.angular_velocity, self.centre)

    def start(self, law: Any, n: int, dtype: Any) -> Any:
        return self.wall.start(law, n, dtype)

    def meet(self, x0: Vectors, x: Vectors, radius: Array, memory: Any, active: Any = True) -> Encounter:
        return self.wall.meet(x0, x, radius, memory, active)

    def rates(self, t: Any) -> tuple[Vectors, Vectors]:
        """V and ω."""
        at = lambda f: tuple(_as_array(f(t)) if callable(f) else f)  # noqa: E731
        return at(self.velocity), at(self.angular_velocity)

    def move(self, pose: WallPose, t: Any, h: Any) -> WallPose:
        """The pose at t + h from that at t."""
        nodes, weights = _GAUSS
        V, w = zip(*(self.rates(t + c * h) for c in nodes), strict=True)
        mean = lambda a: tuple(sum(b * x for b, x in zip(weights, each, strict=True)) for each in zip(*a, strict=True))  # noqa: E731
        # Magnus' commutator, of which no more than the ends are needed.
        turn = add_scaled(scale(h, mean(w)), (5 / 3) ** 0.5 / 12 * h * h, cross(w[2], w[0]))
        c, x, y, z = quaternions.from_vector(jnp.stack(turn))
        return WallPose(add_scaled(pose.shift, h, mean(V)), unit(multiply((c, x, y, z), pose.turn)))

    def local(self, pose: WallPose, x: Vectors) -> Vectors:
        """Points of space in the frame in which the wall rests."""
        c = tuple(self.centre)
        return add(rotate(conjugate(pose.turn), subtract(x, add(c, pose.shift))), c)

    def surface_velocity(self, pose: WallPose, t: Any, p: Vectors) -> tuple[Vectors, Vectors]:
        """Velocity of the points p of the wall, and its angular velocity."""
        V, w = self.rates(t)
        return add(V, cross(w, subtract(p, add(tuple(self.centre), pose.shift)))), w


def _as_array(value: Any) -> Array:
    return jnp.stack([jnp.asarray(a, float) for a in value]) if isinstance(value, tuple | list) else jnp.asarray(value)


def _vector_of_time(name: str, value: Any) -> Any:
    if not callable(value):
        return checks.array(name, value, (3,), "of the wall, or a function of time")
    shape = jax.eval_shape(lambda t: _as_array(value(t)), jnp.zeros(())).shape
    if shape != (3,):
        raise ValueError(f"`{name}(t)` must be three numbers (of the wall), got shape {shape}.")
    return value


def direction(name: str, value: Any) -> Array:
    """The value as a unit vector. Raises ValueError for other shapes and zero."""
    vector = checks.array(name, value, (3,), "a direction")
    length = jnp.sqrt(jnp.sum(vector * vector))
    if checks.is_concrete(value) and not float(length) > 0:
        raise ValueError(f"`{name}` must not be zero (a direction), got {short_repr(value)}.")
    return vector / length
