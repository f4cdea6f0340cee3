"""Tangential forces of contacts with sliding friction."""

from __future__ import annotations

import abc
from typing import Any

import equinox as eqx
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.particles.laws.normal import AbstractNormal, Elastic


class AbstractTangential(eqx.Module):
    """A spring and a dashpot along the plane of contact, with a slider that begins at the limit of Coulomb's law.

    - `friction`: coefficient μ. - `tangential_damping`: constant of the dashpot over that of the normal one.
    """

    friction: eqx.AbstractVar[Float[Array, ""]]
    tangential_damping: eqx.AbstractVar[Float[Array, ""]]

    @abc.abstractmethod
    def check(self, normal: AbstractNormal) -> None:
        """Raises ValueError for a normal force that it can't go with."""

    @abc.abstractmethod
    def stiffness(self, normal: AbstractNormal, elastic: Elastic) -> Array:
        """Of the spring."""

    @abc.abstractmethod
    def keep(self, before: Array, after: Array) -> Any:
        """Factor of the spring's length when its stiffness changes."""


class TangentialSpring(AbstractTangential):
    """A spring of constant stiffness, for linear spring–dashpot models.

    **Arguments:**

    - `tangential_stiffness`: force per length. - `friction`: coefficient μ of Coulomb's law, of the elastic and damping
      normal force. - `tangential_damping`: constant of the dashpot over that of the normal one.

    ??? cite "Reference"
        P. Cundall, O. Strack, A discrete numerical model for granular assemblies, Géotechnique 29 (1979).
    """

    tangential_stiffness: Float[Array, ""]
    friction: Float[Array, ""]
    tangential_damping: Float[Array, ""]

    def __init__(self, tangential_stiffness: Any, friction: Any, tangential_damping: Any = 1.0) -> None:
        self.tangential_stiffness = checks.positive("tangential_stiffness", tangential_stiffness, (), "of contacts")
        self.friction = checks.not_negative("friction", friction, (), "coefficient of friction")
        self.tangential_damping = checks.not_negative("tangential_damping", tangential_damping, (), "share")

    def check(self, normal: AbstractNormal) -> None:
        del normal

    def stiffness(self, normal: AbstractNormal, elastic: Elastic) -> Array:
        return jnp.where(elastic.stiffness > 0, self.tangential_stiffness, 0.0)

    def keep(self, before: Array, after: Array) -> Any:
        return 1.0


class Mindlin(AbstractTangential):
    r"""Mindlin's spring without microslip, $k = 8G^*a$ with the radius a of the contact, for `Hertz` and `JKR`.

    The force changes by k times the displacement; while the contact is unloaded, the spring keeps its length, so that
    its force shrinks with a, and no energy comes from nowhere.

    **Arguments:**

    - `friction`: coefficient μ of Coulomb's law. - `tangential_damping`: constant of the dashpot over that of the
      normal one.

    ??? cite "Reference"
        R. Mindlin, Compliance of elastic bodies in contact, J. Appl. Mech. 16 (1949). C. Thornton, S. Cummins, P.
        Cleary, An investigation of the comparative behaviour of alternative contact force models during inelastic
        collisions, Powder Technology 233 (2013).
    """

    friction: Float[Array, ""]
    tangential_damping: Float[Array, ""]

    def __init__(self, friction: Any, tangential_damping: Any = 1.0) -> None:
        self.friction = checks.not_negative("friction", friction, (), "coefficient of friction")
        self.tangential_damping = checks.not_negative("tangential_damping", tangential_damping, (), "share")

    def check(self, normal: AbstractNormal) -> None:
        if not normal.has_radius:
            raise ValueError(
                f"`Mindlin` needs the radius of the contact, which {type(normal).__name__} doesn't have. Take `Hertz` "
                "or `JKR`, or `TangentialSpring` with a stiffness."
            )

    def stiffness(self, normal: AbstractNormal, elastic: Elastic) -> Array:
        return normal.shear_ratio * elastic.stiffness

    def keep(self, before: Array, after: Array) -> Any:
        return jnp.minimum(1.0, before / jnp.where(after > 0, after, 1.0))
