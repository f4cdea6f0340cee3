"""The interface of shapes: where they sit on their body, mass and bounds."""

from __future__ import annotations

import abc
import inspect
from collections.abc import Sequence
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jaxtyping import Array, Bool, Float, Int

from polhode import checks
from polhode.checks import short_repr
from polhode.spaces.rotation_input import rotation_matrix

Pose = tuple[Float[Array, "3"], Float[Array, "3 3"]]
"""A position in the inertial frame and a rotation to it."""

_IDENTITY = np.eye(3)


class MassProperties(NamedTuple):
    """Of a body of constant density: mass, centre of mass (3,) and inertia (3, 3) about it, in axes of the body."""

    mass: Float[Array, ""]
    centre: Float[Array, "3"]
    inertia: Float[Array, "3 3"]


class Face(NamedTuple):
    """The part of a shape that may touch another along a patch.

    - `corners`: in turn, (k, 3). - `normal`: outward. - `flat`: whether it is a face rather than an edge or a point.
    - `number`: of the corners, 0 to 63.
    """

    corners: Float[Array, "k 3"]
    normal: Float[Array, "3"]
    flat: Bool[Array, ""]
    number: Int[Array, " k"]


class AbstractShape(eqx.Module):
    """A shape on a body or on the ground.

    **Arguments** of all shapes, after their sizes, as keywords:

    - `position`: of the shape's own frame in that of the body, whose origin is the centre of mass; shape (3,).
    - `rotation`: from the shape's own axes to those of the body: 3×3, a unit quaternion (w, x, y, z) or
      `polhode.rotation_vector(...)`.
    - `name`: for results; unique on its body.
    - `colour`: for pictures, a word or three numbers from 0 to 1.

    Sizes may be traced by JAX, and `Parameter`s: these stay until `as_arrays`.

    **Raises** ValueError for sizes and places that make no sense.
    """

    position: Any = eqx.field(kw_only=True, default=(0.0, 0.0, 0.0))
    rotation: Any = eqx.field(kw_only=True, default=None)
    name: str | None = eqx.field(kw_only=True, static=True, default=None)
    colour: Any = eqx.field(kw_only=True, static=True, default=None)

    def __post_init__(self) -> None:
        if self.name is not None:
            checks.word("name", self.name, "of a shape")
        if any(map(_stands_for_array, jax.tree.leaves(self))):
            self.as_arrays()
            return
        self.position = checks.array("position", self.position, (3,), "of the shape in the frame of its body")
        self.rotation = rotation_matrix(_IDENTITY if self.rotation is None else self.rotation)
        self._check()

    @abc.abstractmethod
    def _check(self) -> None:
        """Put arrays in place of the sizes. Raises ValueError for those that make no sense."""

    def as_arrays(self) -> Self:
        """This shape with numbers in place of parameters: their defaults, or what was substituted for them."""
        arguments = {name: getattr(self, name) for name in inspect.signature(type(self)).parameters if name[0] != "_"}
        return type(self)(**{name: jax.tree.map(_number, value) for name, value in arguments.items()})

    @classmethod
    def equalise(cls, shapes: Sequence[Self]) -> Sequence[Self]:
        """The same shapes with arrays of equal lengths where that costs little, so that one program serves them all."""
        return shapes

    def pose_in(self, pose: Pose) -> Pose:
        """The pose of the shape's own frame on a body with the pose (x, R)."""
        x, R = pose
        return x + R @ self.position, R @ self.rotation

    @property
    @abc.abstractmethod
    def bounding_radius(self) -> Float[Array, ""]:
        """Radius of a sphere about `position` that holds the shape; infinite for planes."""

    @property
    def section_radius(self) -> Float[Array, ""]:
        """Least radius of its sections, where these are circles; infinite for planes, 0 for shapes with edges."""
        return jnp.zeros(())

    @abc.abstractmethod
    def bounds(self, pose: Pose) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        """Lowest and highest coordinates in space, on a body with the pose (x, R)."""

    def mass_properties(self, density: Any) -> MassProperties:
        """Of a body that fills this shape with constant density, in the frame of the body.

        Raises ValueError for a density that isn't positive, and for shapes without volume.
        """
        density = checks.positive("density", density, (), "mass per volume")
        volume, centre, inertia = self._volume_properties()
        R = jnp.asarray(self.rotation)
        return MassProperties(density * volume, self.position + R @ centre, density * (R @ inertia @ R.T))

    def _volume_properties(self) -> tuple[Array, Array, Array]:
        """Volume, its centre and its inertia (for density one) about it, in the shape's own frame."""
        raise ValueError(f"{self!r} has no volume. Give the body its mass and inertia.")

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self)).parameters.values()
        sizes = [each.name for each in parameters if each.kind is not inspect.Parameter.KEYWORD_ONLY]
        text = ", ".join(f"{name}={_text(getattr(self, name))}" for name in sizes)
        return f"{type(self).__name__}({text}{'' if self.name is None else f', name={self.name!r}'})"


class AbstractConvex(AbstractShape):
    """A shape that is convex and bounded.

    - `is_round`: whether parts of its surface are curved.
    """

    is_round: ClassVar[bool] = True

    @abc.abstractmethod
    def support(self, direction: Float[Array, "3"]) -> Float[Array, "3"]:
        """The point of the shape that is farthest along a direction, both in the shape's own frame."""

    def bounds(self, pose: Pose) -> tuple[Float[Array, "3"], Float[Array, "3"]]:
        x, R = self.pose_in(pose)
        ends = [[R[k] @ self.support(side * R[k]) for k in range(3)] for side in (-1, 1)]
        return x + jnp.stack(ends[0]), x + jnp.stack(ends[1])

    @abc.abstractmethod
    def face(self, direction: Float[Array, "3"], across: Float[Array, "3"]) -> Face:
        """The face, edge or point that lies most along a direction, in the shape's own frame.

        - `across`: roughly perpendicular to it, where corners of round faces begin.
        """

    @property
    def centre(self) -> Float[Array, "3"]:
        """A point in the middle, in the shape's own frame."""
        return jnp.zeros(3)

    @property
    @abc.abstractmethod
    def inner_radius(self) -> Float[Array, ""]:
        """Radius of a ball about the centre that fits inside."""


def _stands_for_array(value: Any) -> bool:
    return hasattr(value, "__jax_array__") and not isinstance(value, jax.Array | Tracer)


def _number(value: Any) -> Any:
    return np.asarray(value) if _stands_for_array(value) else value


def _text(value: Any) -> str:
    """Numbers of a few entries as such, larger arrays by their shape."""
    if not checks.is_concrete(value) or np.size(value) > 4:
        return f"<{'×'.join(map(str, np.shape(value)))} numbers>"
    return short_repr(np.asarray(value).tolist())
