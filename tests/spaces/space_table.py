"""The spaces that the conformance suite runs on; a new space is one line here."""

from __future__ import annotations

import dataclasses
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from compiling import evaluated
from group_representations import (
    Representation,
    direct_power,
    direct_product,
    linear,
    magnetic,
    rigid,
    rotation_matrices,
    unit_quaternions,
)

from polhode import spaces as sp

EPS = np.finfo(float).eps
ANGLES = (0.0, 1e-12, 1e-7, 1e-3, 0.1, 0.7, 1.0, 1.4)


def row(q: Any, i: int) -> Any:
    return jax.tree.map(lambda x: x[i], q)


@dataclasses.dataclass(frozen=True)
class Case:
    """- `units`: for each block of the algebra, "r" for rotations or the power of the length unit as an integer.
    - `series`: how many terms of the commutator series of `rate` hold after the first.
    - `representation`: of groups; None for homogeneous spaces and other coordinate maps.
    """

    space: sp.AbstractSpace
    units: tuple[str | int, ...]
    representation: Representation | None = None
    series: int = 2

    def element(self, generator: np.random.Generator, angle: float, length: float = 1.0) -> np.ndarray:
        """A random algebra element: every rotation by `angle`, other blocks of size length^unit."""
        parts = []
        for unit, size in zip(self.units, self.space.blocks, strict=True):
            direction = generator.normal(size=size)
            direction /= np.linalg.norm(direction)
            parts.append(direction * (angle if unit == "r" else length**unit))
        return np.concatenate(parts)

    def rotation(self, generator: np.random.Generator, angle: float) -> np.ndarray:
        """A pure rotation: the same for all rotation blocks, as a change of the inertial frame is."""
        direction = generator.normal(size=3)
        direction *= angle / np.linalg.norm(direction)
        blocks = zip(self.units, self.space.blocks, strict=True)
        return np.concatenate([direction if unit == "r" else np.zeros(size) for unit, size in blocks])

    def unit_sizes(self, length: float) -> np.ndarray:
        """The unit of every component of an algebra element."""
        sizes = [1.0 if unit == "r" else length**unit for unit in self.units]
        return np.repeat(sizes, self.space.blocks)


def _matrices() -> Representation:
    return rotation_matrices(sp.SO3())


CASES = {
    "R5": Case(sp.Rn(5, blocks=(2, 3)), (1, 1), linear(5)),
    "SO3": Case(sp.SO3(), ("r",), _matrices()),
    "S3": Case(sp.S3(), ("r",), unit_quaternions()),
    "RotationVector": Case(sp.RotationVector(), ("r",), rotation_matrices(sp.RotationVector())),
    "SE3": Case(sp.SE3(), ("r", 1), rigid(sp.SE3())),
    "S3R3": Case(sp.S3R3(), ("r", 1), rigid(sp.S3R3())),
    "RotationVectorR3": Case(sp.RotationVectorR3(), ("r", 1), rigid(sp.RotationVectorR3())),
    "SO3xR3": Case(sp.direct_so3_r3(), ("r", 1), direct_product(_matrices(), linear(3))),
    "S3xR3": Case(sp.direct_s3_r3(), ("r", 1), direct_product(unit_quaternions(), linear(3))),
    "S3^2": Case(sp.power(sp.S3(), 2), ("r", "r"), direct_power(unit_quaternions(), 2, row)),
    "T*SO3": Case(sp.Cotangent(sp.SO3()), ("r", 1), magnetic(_matrices(), (1, 1, 1))),
    "T*SE3": Case(sp.Cotangent(sp.SE3()), ("r", 1, 1, 0), magnetic(rigid(sp.SE3()), (1, 1, 1, 0, 0, 0))),
    "S2": Case(sp.S2(), ("r",)),
    "TS2": Case(sp.TS2(), ("r", 0)),
    "so3*": Case(sp.CoadjointOrbit(sp.SO3()), ("r",)),
    "so3* by S3": Case(sp.CoadjointOrbit(sp.S3()), ("r",)),
    "se3*": Case(sp.CoadjointOrbit(sp.SE3()), ("r", 0)),
    "TS2^2": Case(sp.power(sp.TS2(), 2), ("r", 0) * 2),
    "S2xR2": Case(sp.product(sp.S2(), sp.Rn(2)), ("r", 1)),
    "Cayley SO3": Case(sp.Cayley(sp.SO3()), ("r",), series=1),
    "Cayley S3R3": Case(sp.Cayley(sp.S3R3()), ("r", 1), series=1),
    "second-kind S3": Case(sp.SecondKind(sp.S3()), ("r",), series=0),
    "second-kind SE3": Case(sp.SecondKind(sp.SE3()), ("r", 1), series=0),
    "Cayley S3^2xR1": Case(
        sp.with_coordinates(sp.product(sp.power(sp.S3(), 2), sp.Rn(1)), "cayley"), ("r", "r", 1), series=1
    ),
}

GROUPS = {name: case for name, case in CASES.items() if isinstance(case.space, sp.AbstractGroup)}
REPRESENTED = {name: case for name, case in CASES.items() if case.representation is not None}


def distance(a: Any, b: Any) -> jax.Array:
    return jnp.max(
        jnp.stack([jnp.max(jnp.abs(x - y)) for x, y in zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=True)])
    )


def ambient(q: Any) -> jax.Array:
    return jnp.concatenate([jnp.ravel(x) for x in jax.tree.leaves(q)])


def elements(case: Case, seed: int, angles: tuple[float, ...] = ANGLES) -> jax.Array:
    generator = np.random.default_rng(seed)
    return jnp.array([case.element(generator, angle) for angle in angles])


def points(case: Case, seed: int, n: int = len(ANGLES)) -> Any:
    return jax.vmap(case.space.random)(jax.random.split(jax.random.key(seed), n))


def every(function: Any, *batched: Any) -> Any:
    """`function` of every row. Not compiled: XLA would take far longer over the derivatives than they take to run."""
    return evaluated(jax.vmap(lambda *arguments: function(*arguments)), *batched)
