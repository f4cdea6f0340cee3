"""Normal forces of contacts."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
from jaxtyping import Array, Float


class Elastic(NamedTuple):
    """Elastic normal force, positive if it pushes; dF/dδ of a smooth contact as large; stored energy."""

    force: Array
    stiffness: Array
    energy: Array


class AbstractNormal(eqx.Module):
    """An elastic force along the normal with a dashpot.

    - `ratio`: damping ratio ζ; the dashpot has the constant 2ζ `dashpot` √(m*S), S the stiffness.
    """

    sticks: ClassVar[bool] = False
    """Whether contacts hold beyond the overlap at which they began."""
    has_radius: ClassVar[bool] = False
    """Whether the stiffness is 2E*a with a the radius of the contact, as `Mindlin` needs it."""
    dashpot: ClassVar[float] = 1.0

    ratio: eqx.AbstractVar[Float[Array, ""]]
    is_damped: eqx.AbstractVar[bool]

    @abc.abstractmethod
    def elastic(self, overlap: Array, radius: Any) -> Elastic:
        """Of contacts with this overlap and effective radius; zero without overlap unless the law `sticks`."""

    @abc.abstractmethod
    def stiffest(self, mass: Any, radius: Any, speed: Any) -> Array:
        """The stiffness at the depth where the contact stops this speed."""

    @property
    def shear_ratio(self) -> Any:
        """Tangential over normal stiffness of smooth contacts, where the law `has_radius`."""
        return 1.0

    def pull_off(self, radius: Any) -> Any:
        """The largest tension."""
        del radius
        return 0.0

    def reach(self, radius: Any) -> Any:
        """Distance between the surfaces to which a contact holds."""
        del radius
        return 0.0
