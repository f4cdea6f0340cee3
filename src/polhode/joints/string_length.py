"""The length of a string through points of bodies, around spheres and cylinders, and over pulleys."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import eager_numpy
from polhode.joints._frames import (
    axis,
    check_body,
    check_has_rotation,
    frame,
    initial_pose,
    point_on,
    point_position,
    to_body_frame,
)
from polhode.joints.named_coordinates import AbstractMeasured, Term
from polhode.joints.obstacles import AbstractObstacle, Cylinder, Sphere
from polhode.joints.relative import AbstractRelativeCoordinate, Scalar
from polhode.modules import Module
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench, axial, rates
from polhode.spaces.base import norm


class Segment(Module):
    """A string between two points.

    **Arguments:**

    - `first`, `second`: numbers of the nodes. - `s0`, `s1`: the points in their frames, shape (3,).
    - `share`: what its length counts. - `carrier`, `obstacle`: what it may go around, and the node of that.
    """

    s0: Float[Array, "3"]
    s1: Float[Array, "3"]
    share: Float[Array, ""]
    obstacle: AbstractObstacle | None
    first: int = eqx.field(static=True)
    second: int = eqx.field(static=True)
    carrier: int = eqx.field(static=True)

    def length(self, poses: Poses) -> Scalar:
        """Its length times its share."""
        a, b = point_position(poses[self.first], self.s0), point_position(poses[self.second], self.s1)
        if self.obstacle is None:
            return self.share * norm(b - a)
        pose = poses[self.carrier]
        return self.share * self.obstacle.length(to_body_frame(pose, a), to_body_frame(pose, b))


class PathLength(AbstractRelativeCoordinate):
    """The sum of the lengths of segments.

    **Arguments:**

    - `segments`: between points of nodes.
    """

    pairwise: ClassVar[bool] = False

    segments: tuple[Segment, ...]

    def difference(self, poses: Poses, target: Any) -> Scalar:
        return self.value(poses) - target

    @jax.jit
    def value(self, poses: Poses) -> Scalar:
        return sum((segment.length(poses) for segment in self.segments), start=jnp.zeros(()))

    @jax.jit
    def rate(self, poses: Poses, twists: Twists) -> Scalar:
        return jax.jvp(self.value, (poses,), (rates(poses, twists),))[1]

    @jax.jit
    def wrenches(self, poses: Poses, strength: Any) -> tuple[Wrench, ...]:
        gradients = jax.grad(self.value)(poses)
        return tuple(
            Wrench(strength * axial(pose.R.T @ along.R), strength * along.x)
            for pose, along in zip(poses, gradients, strict=True)
        )


@dataclasses.dataclass(frozen=True, eq=False)
class Wrap:
    """A sphere or cylinder that a string goes around, between two points of a `StringLength`.

    The string is straight where it doesn't touch it, and on it the shortest way, without friction.

    **Arguments:**

    - `body`: to which it is fixed; a rigid body or `model.ground`.
    - `radius`.
    - `position`: of the centre, or a point of the axis, in the inertial frame at the initial time.
    - `axis`: of a cylinder, which has no ends; None for a sphere.
    - `side`: a point outside of the surface, in the inertial frame at the initial time and fixed to the body. The
      string goes around on that side: it never crosses the ray from the axis or the centre that is opposite to it, also
      where another way is shorter. If an end goes over that ray, its length jumps. None for the shortest way.
    """

    body: Body
    radius: Any
    position: Any
    axis: Any = None
    side: Any = None

    def place(self) -> AbstractObstacle:
        """The surface in the frame of its body."""
        check_body(self, "body", self.body)
        check_has_rotation(self.body, "Wrap")
        radius, pose = checks.positive("radius", self.radius, (), "of the sphere or cylinder"), initial_pose(self.body)
        centre = point_on(self.body, pose, self.position, "position")
        side = None if self.side is None else point_on(self.body, pose, self.side, "side")
        if side is not None and checks.is_concrete(side, centre, radius):
            distance = float(np.linalg.norm(np.asarray(side) - np.asarray(centre)))
            if distance < float(radius):
                raise ValueError(
                    f"`side` is {distance:g} from `position`, within the radius {float(radius):g}: strings through the "
                    "inside of a ring are not known. Give a point outside."
                )
        if self.axis is None:
            return Sphere(centre, radius, side)
        return Cylinder(jnp.asarray(frame(axis("axis", pose.R.T @ axis("axis", self.axis)))), centre, radius, side)


@dataclasses.dataclass(frozen=True, eq=False)
class Pulley:
    """Ends a branch of a string and begins another one, whose length counts `1 / divisor`.

    A hoist with n lines to its block has a branch with divisor 1 to the hand and one with 1/n to the block.

    **Arguments:**

    - `divisor`: greater than zero.
    """

    divisor: Any


@dataclasses.dataclass(frozen=True, eq=False)
class StringLength(AbstractMeasured):
    r"""The length of a massless string without friction through points of bodies, its coordinate "length".

    Springs, stops, dry friction, actuators and controllers take it as they take a joint: `forces.JointStops` with
    `limits=(-inf, L)` is a string of length L that can't stretch. A force f along it is minus the tension. It may go
    around spheres and cylinders, and branch at pulleys: $\ell = \sum_b \ell_b / d_b$, so the tension in a branch is
    $T / d_b$.

    **Arguments:**

    - `points`: pairs (body, point) in the order of the string, with bodies, mass points or `model.ground` and points in
      the inertial frame at the initial time; a `joints.Wrap` between two of them, and a `joints.Pulley` between
      branches or before the first one.
    - `name`: for messages.
    """

    points: Sequence[tuple[Body, Any] | Wrap | Pulley]
    name: str | None = None

    @eager_numpy()
    def __post_init__(self) -> None:
        _check_points(self, self.points)
        if len(self.bodies) < 2:
            names = ", ".join(short_repr(body) for body in self.bodies)
            raise ValueError(f"A string needs points of two bodies, and `points` has those of {names} alone.")
        self.coordinate()

    @property
    def bodies(self) -> tuple[Body, ...]:
        return tuple({id(body): body for body in map(_body_of, self.points) if body is not None}.values())

    def initial(self, name: str | None = None) -> Float[Array, ""]:
        return self.coordinate(name).value(tuple(initial_pose(body) for body in self.bodies))

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        return {"length": PathLength(tuple(self._segments()))}

    def terms(self, name: str | None = None) -> tuple[Term, ...]:
        return (Term(jnp.ones(()), self, name),)

    def branches(self) -> list[list[tuple[Body, Float[Array, "3"]]]]:
        """Bodies and points in their frames of each branch, for pictures; without what it goes around."""
        branches: list[list[tuple[Body, Float[Array, "3"]]]] = [[]]
        for item in self.points:
            if isinstance(item, Pulley):
                branches.append([])
            elif not isinstance(item, Wrap):
                branches[-1].append((item[0], _place(item)))
        return [branch for branch in branches if branch]

    def _segments(self) -> list[Segment]:
        numbers = {id(body): k for k, body in enumerate(self.bodies)}
        share, last, wrap = jnp.ones(()), None, None
        segments = []
        for item in self.points:
            if isinstance(item, Pulley):
                share, last = 1 / checks.positive("divisor", item.divisor, (), "of a branch"), None
            elif isinstance(item, Wrap):
                wrap = item
            else:
                if last is not None:
                    ends = numbers[id(last[0])], numbers[id(item[0])]
                    obstacle = None if wrap is None else wrap.place()
                    carrier = -1 if wrap is None else numbers[id(wrap.body)]
                    segments.append(Segment(_place(last), _place(item), share, obstacle, *ends, carrier))
                last, wrap = item, None
        return segments


def _check_points(part: StringLength, points: Any) -> None:
    """Raises ValueError unless they are branches of two points at least, with one `Wrap` at most between points."""
    items: list[Any] = checks.as_list("points", points, "pairs (body, point), `Wrap` and `Pulley`")
    kinds = "".join("p" if isinstance(item, Pulley) else "w" if isinstance(item, Wrap) else "x" for item in items)
    for item, kind in zip(items, kinds, strict=True):
        if kind == "x":
            if not isinstance(item, tuple | list) or len(item) != 2:
                raise ValueError(
                    "`points` of a string must be pairs (body, point), `joints.Wrap` and `joints.Pulley`, got "
                    f"{short_repr(item)}."
                )
            body, _ = item
            check_body(part, "points", body)
    for branch in kinds.removeprefix("p").split("p"):
        if branch.count("x") < 2:
            raise ValueError(
                f"Each branch of a string needs two points at least; `points` has one with {branch.count('x')}."
            )
        if branch[0] == "w" or branch[-1] == "w" or "ww" in branch:
            raise ValueError("A `Wrap` of `points` must be between two points: give a point before and after each.")


def _body_of(item: Any) -> Body | None:
    return None if isinstance(item, Pulley) else item.body if isinstance(item, Wrap) else item[0]


def _place(item: tuple[Body, Any]) -> Float[Array, "3"]:
    body, point = item
    return point_on(body, initial_pose(body), point, "point")
