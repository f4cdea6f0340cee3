"""Linear combinations of joint coordinates, such as the length of a tendon over pulleys."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import Any

import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.joints.named_coordinates import AbstractMeasured, AbstractMeasuredPair, Term
from polhode.joints.relative import AbstractRelativeCoordinate, Scalar
from polhode.multibody.bodies import Body
from polhode.multibody.mechanism.angles import PlacedAngle
from polhode.multibody.mechanism.poses import Poses, Twists, Wrench


class CombinedCoordinate(AbstractRelativeCoordinate):
    """$\\sum_i r_i s_i$, where $s_i$ are coordinates of the bodies 2i and 2i + 1; angles count turns.

    **Arguments:**

    - `inner`: the coordinates. - `ratios`: r, shape (n,).
    """

    inner: tuple[AbstractRelativeCoordinate, ...]
    ratios: Float[Array, " n"]

    def difference(self, poses: Poses, target: Any) -> Scalar:
        return self.value(poses) - target

    def value(self, poses: Poses) -> Scalar:
        return self.ratios @ jnp.stack([s.value(pair) for s, pair in zip(self.inner, _pairs(poses), strict=True)])

    def angles(self, nodes: Sequence[int] | None = None) -> tuple[PlacedAngle, ...]:
        parts = zip(self.inner, _pairs(range(2 * len(self.inner)) if nodes is None else nodes), strict=True)
        return tuple(angle for s, pair in parts for angle in s.angles(pair))

    def rate(self, poses: Poses, twists: Twists) -> Scalar:
        parts = zip(self.inner, _pairs(poses), _pairs(twists), strict=True)
        return self.ratios @ jnp.stack([s.rate(*both) for s, *both in parts])

    def wrenches(self, poses: Poses, strength: Any) -> tuple[Wrench, ...]:
        parts = zip(self.inner, _pairs(poses), self.ratios, strict=True)
        return tuple(wrench for s, pair, r in parts for wrench in s.wrenches(pair, r * strength))


@dataclasses.dataclass(frozen=True, eq=False)
class Combination(AbstractMeasured):
    r"""A linear combination of joint coordinates: $\ell = \sum_i r_i s_i$, its coordinate "length".

    Springs, stops, dry friction, actuators and controllers take it as they take a joint; a force f along it acts with
    $r_i f$ along each coordinate. So a tendon over pulleys of radii $r_i$ pulls.

    **Arguments:**

    - `joints`: joints with one free coordinate each, or pairs (joint, name of the coordinate).
    - `ratios`: r, one for each.

    Angles count turns.
    """

    joints: Sequence[AbstractMeasuredPair | tuple[AbstractMeasuredPair, str]]
    ratios: Any

    def __post_init__(self) -> None:
        if not checks.sequence("joints", self.joints, "joints with a coordinate each, one ratio for each"):
            raise ValueError("`joints` of a Combination must not be empty.")
        for pair, name in self._named_pairs():
            if not isinstance(pair, AbstractMeasuredPair):
                raise ValueError(
                    "`joints` of a Combination must be joints with a free coordinate, such as `Revolute`, or pairs of "
                    f"one and the name of its coordinate, got {short_repr(pair)}."
                )
            pair.coordinate(name)
        checks.array("ratios", self.ratios, (len(self.joints),), "one for each joint")

    @property
    def bodies(self) -> tuple[Body, ...]:
        return tuple(body for pair, _ in self._named_pairs() for body in pair.bodies)

    def initial(self, name: str | None = None) -> Float[Array, ""]:
        self.coordinate(name)
        return sum((ratio * pair.initial(of) for ratio, pair, of in self.terms()), start=jnp.zeros(()))

    def coordinates(self) -> dict[str, AbstractRelativeCoordinate]:
        inner = tuple(pair.coordinate(name) for pair, name in self._named_pairs())
        return {"length": CombinedCoordinate(inner, jnp.asarray(self.ratios, float))}

    def terms(self, name: str | None = None) -> tuple[Term, ...]:
        ratios = jnp.asarray(self.ratios, float)
        return tuple(Term(r, *of) for r, of in zip(ratios, self._named_pairs(), strict=True))

    def joint_coordinate(self, system: Any, q: Any, name: str | None = None) -> Float[Array, ""] | None:
        values = [(term.ratio, term.pair.joint_coordinate(system, q, term.name)) for term in self.terms(name)]
        if any(value is None for _, value in values):
            return None
        return sum((ratio * value for ratio, value in values if value is not None), start=jnp.zeros(()))

    def _named_pairs(self) -> Iterator[tuple[AbstractMeasuredPair, str | None]]:
        return (joint if isinstance(joint, tuple) else (joint, None) for joint in self.joints)


def _pairs(items: Sequence[Any]) -> Iterator[tuple[Any, Any]]:
    return zip(items[::2], items[1::2], strict=True)
