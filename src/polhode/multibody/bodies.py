"""Bodies of models."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.compiler.numpy.eager import array_of
from polhode.spaces.rotation_input import SINGLE_PRECISION, rotation_matrix

Kind = Literal["ground", "rigid", "point", "coordinate", "integral", "flexible"]
SINGLE = ("coordinate", "integral")
"""Kinds that are a single linear coordinate without a position in space."""


class ShapeAdder:
    """Adds shapes to bodies on behalf of a model.

    To fingerprints it is nothing else: functions that capture a body capture neither its model nor, with that, numbers
    of the model with respect to which there may be derivatives.
    """

    def __init__(self, add: Callable[[Body, Any], Any]) -> None:
        self._add = add
        self._identity = ()

    def __call__(self, body: Body, shape: Any) -> Any:
        return self._add(body, shape)


@dataclasses.dataclass(frozen=True, eq=False)
class Body:
    """A body of a model, as `Model.add_body` and similar methods return it; a handle for joints, forces and outputs.

    - `name`: unique in the model.
    - `kind`: "rigid", "point" (a mass point in R³), "coordinate" (one linear coordinate), "integral" (one whose rate
      integrates something, so that it has no energy), "flexible" or "ground".
    - `mass`; `inertia`: (3, 3) about the centre of mass in the body frame.
    - `x`, `R`: initial position of the centre of mass (3,) and rotation (3, 3) from the body to the inertial frame.
    - `u`, `omega`: initial velocity, inertial, and angular velocity, body-fixed.
    - `formulation`: coordinates of this body if they differ from those of the model.
    - `rod`: name of the rod that it is a node of. - `diameter`: of a particle; None for other bodies.
    - `carrier`: name of the flexible body that it is a node of, without coordinates of its own; None for others.
    - `shapes`: from `polhode.shapes`, in its frame. - `attach`: adds a shape, on behalf of the model.
    """

    name: str
    kind: Kind
    mass: Any
    inertia: Array
    x: Float[Array, "3"]
    R: Float[Array, "3 3"]
    u: Float[Array, "3"]
    omega: Float[Array, "3"]
    formulation: str | None = None
    rod: str | None = None
    diameter: Any = None
    carrier: str | None = None
    shapes: list[Any] = dataclasses.field(default_factory=list)
    attach: ShapeAdder | None = None

    def add_shape(self, shape: Any) -> Any:
        """Give the body a shape from `polhode.shapes`, besides those that it has; returns it. See `Model.add_shape`."""
        if self.attach is None:
            raise ValueError(
                f"{self!r} takes no shapes: rigid bodies, points and nodes of rods of a model do. Fix a body with the "
                "shape to it by `polhode.joints.Fixed`."
            )
        return self.attach(self, shape)

    def __repr__(self) -> str:
        return f"Body({short_repr(self.name)})"

    @property
    def has_own_coordinates(self) -> bool:
        """Whether no joint coordinates can describe its motion, or the user gave it others."""
        belongs = (self.formulation, self.rod, self.diameter, self.carrier)
        return self.kind == "flexible" or any(x is not None for x in belongs)

    @property
    def inert(self) -> bool:
        """Whether mass and inertia are positive definite; assumed of traced numbers."""
        if self.kind != "rigid" or not checks.is_concrete(self.mass, self.inertia):
            return True
        return float(self.mass) > 0 and float(np.linalg.eigvalsh(np.asarray(self.inertia))[0]) > 0


def ground() -> Body:
    """The inertial frame as a body that never moves."""
    zero = jnp.zeros(3)
    return Body("ground", "ground", jnp.zeros(()), jnp.zeros((3, 3)), zero, jnp.eye(3), zero, zero)


def rigid(
    name: str,
    mass_value: Any,
    inertia: Any,
    pose: tuple[Any, Any],
    twist: tuple[Any, Any],
    formulation: str | None,
    check: bool,
) -> Body:
    """A rigid body from values of users; see `Model.add_body`. Raises ValueError for invalid ones."""
    return Body(
        name,
        "rigid",
        mass(mass_value, check),
        inertia_matrix(inertia, check),
        checks.array("position", pose[0], (3,), "initial centre of mass, inertial frame"),
        rotation_matrix(pose[1]),
        checks.array("velocity", twist[0], (3,), "of the centre of mass, inertial frame"),
        checks.array("angular_velocity", twist[1], (3,), "body-fixed"),
        formulation,
    )


def point(name: str, mass_value: Any, position: Any, velocity: Any) -> Body:
    """A mass point; see `Model.add_point`."""
    return _without_rotation(
        name,
        "point",
        checks.positive("mass", mass_value, (), "mass of a point"),
        checks.array("position", position, (3,), "initial position, inertial frame"),
        checks.array("velocity", velocity, (3,), "inertial frame"),
    )


def coordinate(name: str, inertia: Any, value: Any, velocity: Any) -> Body:
    """A single linear coordinate, the first component of a position; see `Model.add_coordinate`."""
    first = jnp.array([1.0, 0.0, 0.0])
    return _without_rotation(
        name,
        "coordinate",
        checks.positive("mass", inertia, (), "inertia of a coordinate"),
        checks.array("value", value, (), "initial value") * first,
        checks.array("velocity", velocity, (), "initial rate") * first,
    )


def integral(name: str) -> Body:
    """A coordinate without energy whose rate integrates something; see `Model.add_integral`."""
    return _without_rotation(name, "integral", jnp.ones(()), jnp.zeros(3), jnp.zeros(3))


def _without_rotation(name: str, kind: Kind, inertia: Any, x: Any, u: Any) -> Body:
    return Body(name, kind, inertia, jnp.zeros((3, 3)), x, jnp.eye(3), u, jnp.zeros(3))


def mass(value: Any, check: bool = True) -> Float[Array, ""]:
    """The mass of a body; positive, without `check` also zero."""
    if check:
        return checks.positive("mass", value, (), "mass of a body; zero only with check_inertia=False")
    number = checks.array("mass", value, (), "mass of a body")
    if checks.is_concrete(value) and not float(number) >= 0:
        raise ValueError(f"`mass` can't be negative, got {short_repr(value)}.")
    return number


def inertia_matrix(value: Any, check: bool = True) -> Float[Array, "3 3"]:
    """Inertia from three principal moments or a matrix that is symmetric to single precision.

    With `check` raises ValueError for moments that aren't positive, or that no distribution of mass has.
    """
    array = checks.finite("inertia", value, "three principal moments or a 3×3 matrix about the centre of mass")
    xp = np if isinstance(array, np.ndarray) else jnp
    if array.shape == (3,):
        matrix = xp.diag(array)
    elif array.shape == (3, 3):
        matrix = array
    else:
        raise ValueError(
            "`inertia` must be three principal moments or a 3×3 matrix about the centre of mass, "
            f"got shape {array.shape}."
        )
    if checks.is_concrete(matrix):
        _check_inertia(np.asarray(matrix), check)
    symmetric = 0.5 * (matrix + matrix.T)
    return array_of(symmetric) if isinstance(symmetric, np.ndarray) else symmetric


def _check_inertia(matrix: np.ndarray, check: bool) -> None:
    if np.max(np.abs(matrix - matrix.T)) > SINGLE_PRECISION * np.max(np.abs(matrix)):
        raise ValueError(f"`inertia` must be symmetric, got {matrix.tolist()}.")
    if not check:
        return
    moments = np.linalg.eigvalsh(0.5 * (matrix + matrix.T))
    if moments[0] <= 0:
        raise ValueError(
            f"`inertia` must be positive definite, its principal moments are {moments.tolist()}. "
            "Give a slender body a small moment about its axis, or use `add_point` for a mass point."
        )
    if moments[2] > (moments[0] + moments[1]) * (1 + SINGLE_PRECISION):
        raise ValueError(
            f"No distribution of mass has the principal moments {moments.tolist()}: the largest exceeds the sum of the "
            "others. Check that `inertia` is about the centre of mass, or pass `check_inertia=False`."
        )
