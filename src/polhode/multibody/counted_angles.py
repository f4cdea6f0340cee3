"""Angles of joints as real numbers: their turns are counted along the motion and stored in the state."""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
from jaxtyping import Array, Float

from polhode.compiler.primitives.row_loop import map_rows
from polhode.linalg.blocks import Indices
from polhode.linalg.known_places import take
from polhode.multibody.mechanism.angles import CountableAngle
from polhode.multibody.mechanism.groups import Motion
from polhode.multibody.mechanism.poses import Pose, Twist

_LOOP_ABOVE = 8
"""Number of angles above which they are evaluated in a loop instead of a vmap."""


class AngleName(NamedTuple):
    """Names of a counted angle.

    - `joint`, `coordinate`: names of the joint, and of the angle in it. - `bodies`: names of its two bodies.
    - `sign`: 1, or -1 where the coordinate is the negative of the angle.
    """

    joint: str | None
    coordinate: str
    bodies: tuple[str, str]
    sign: float


class TurnCounter(eqx.Module):
    r"""Counts the turns of angles, whose values are part of the state.

    From one instant to the next an angle changes by about $\tfrac h2(\dot\varphi_0+\dot\varphi_1)$; the next value
    is the one within half a turn of this prediction. So turns are right as long as a step resolves the change of the
    rates, however many turns it makes.

    - `angles`: all angles, stacked; their `reference` is the value at the start of the model.
    - `first`, `second`: rows of a `Motion` between which they are measured.
    - `names`: of angles of joints; None for others.
    - `owners`: names of parts of the model that evaluate angles between their bodies, and the numbers of these.
    """

    angles: CountableAngle
    first: Indices = eqx.field(static=True)
    second: Indices = eqx.field(static=True)
    names: tuple[AngleName | None, ...] = eqx.field(static=True)
    owners: tuple[tuple[str, tuple[int, ...]], ...] = eqx.field(static=True, default=())

    @property
    def count(self) -> int:
        return self.first.numbers.size

    def near(self, turns: Float[Array, " k"]) -> TurnCounter:
        """The counter with other reference angles."""
        return dataclasses.replace(self, angles=self.angles.near(turns))

    def values(self, motion: Motion, near: Float[Array, " k"]) -> Float[Array, " k"]:
        """The angles within half a turn of those in `near`."""
        angles = self.angles.near(near)
        return self._each(lambda _, angle, poses: angle.value(poses), angles, self._poses(motion))

    def rates(self, motion: Motion) -> Float[Array, " k"]:
        """Their time derivatives."""
        rate = lambda _, angle, poses, twists: angle.rate(poses, twists)  # noqa: E731
        return self._each(rate, self.angles, self._poses(motion), self._twists(motion))

    def later(
        self, before: Motion, turns: Float[Array, " k"], after: Motion, h: Float[Array, ""]
    ) -> Float[Array, " k"]:
        """The angles of a motion a time h after another one, in which they were `turns`."""
        return self.values(after, turns + 0.5 * h * (self.rates(before) + self.rates(after)))

    def number(self, joint: str | None, coordinate: str, bodies: tuple[str, ...]) -> int | None:
        """The number of an angle of a joint; one without a name is identified by its bodies if that is unique."""
        alike = [(k, n) for k, n in enumerate(self.names) if n and (n.coordinate, n.bodies) == (coordinate, bodies)]
        own = [k for k, name in alike if name.joint == joint]
        if joint is None and not own:
            own = [k for k, _ in alike]
        return own[0] if len(own) == 1 else None

    def angles_of(self, part: str) -> tuple[int, ...] | None:
        """The numbers of the angles that a part of the model evaluates between its bodies; None if there are none."""
        return _by_name(self.owners).get(part)

    def sign(self, number: int) -> float:
        """-1 where the coordinate of that name is the negative of the angle, otherwise 1."""
        name = self.names[number]
        return 1.0 if name is None else name.sign

    def _each(self, function: Callable[..., Any], *stacked: object) -> Float[Array, " k"]:
        return map_rows(function, None, *stacked, loop=self.count > _LOOP_ABOVE)

    def _poses(self, motion: Motion) -> tuple[Pose, Pose]:
        return self._rows(motion.poses)

    def _twists(self, motion: Motion) -> tuple[Twist, Twist]:
        assert motion.twists is not None
        return self._rows(motion.twists)

    def _rows(self, of_nodes: object) -> tuple:
        ends = (self.first, self.second)
        return tuple(jax.tree.map(lambda a, end=end: take(a, end.numbers), of_nodes) for end in ends)


@functools.lru_cache(maxsize=64)
def _by_name(owners: tuple[tuple[str, tuple[int, ...]], ...]) -> dict[str, tuple[int, ...]]:
    return dict(owners)
