"""Hamiltonian systems on the cotangent bundle of a Lie group, and their reduction to its dual algebra."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, Literal, Protocol

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.spaces.base import AbstractGroup, Point, Vector
from polhode.spaces.coadjoint import CoadjointOrbit
from polhode.spaces.cotangent import Cotangent, CotangentPoint
from polhode.spaces.rigid import AbstractRigidGroup
from polhode.spaces.rotations import AbstractRotationGroup
from polhode.systems.base import AbstractConversion, AbstractSystem, Observable, shape_of
from polhode.systems.vector_field import ToVectorField

Momentum = Float[Array, " dim"]


class Counter(Protocol):
    """A counter of turns along the motion; see `AbstractSystem.count_turns`."""

    def count_turns(self, before: CotangentPoint, after: CotangentPoint, h: Any) -> CotangentPoint:
        """The later state with its angles counted, from the state h earlier."""
        ...

    def turn_failure(self, before: CotangentPoint, after: CotangentPoint) -> Array | None:
        """A `Result` code for steps in which angles turn too far to be counted."""
        ...


class Hamiltonian(AbstractSystem):
    r"""A Hamiltonian system on T*G, right-trivialised: $\dot g = f_1 g,\ \dot\mu = f_2 - \mathrm{ad}^*_{f_1}\mu$ with
    $f_1 = \partial H/\partial\mu,\ f_2 = -R_g^*\,\partial H/\partial g$.

    States are points (g, μ) of `Cotangent(group)`. μ is the momentum in the inertial frame: for G = SO(3) the spatial
    angular momentum π = Q I Ω. The derivatives are found by automatic differentiation, f₂ at fixed μ, so the part of
    it that comes from a kinetic energy in body coordinates, π × ω on SO(3), is included.

    **Arguments:**

    - `group`: the configuration space G, dimension d.
    - `energy`: callable (g, μ) → H, a number; μ of shape (d,). Make it an `equinox.Module` to give it parameters.
    - `kept_momenta`: names of invariants of the problem that are momenta of symmetries of H under G from the left:
      symplectic methods promise them to round-off, and audits check it.
    - `counter`: counts turns of angles along the motion; None without any.

    ??? cite "Reference"
        E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, Lie group integrators for mechanical systems (2021),
        equations (11)–(14).
    """

    kind_name: ClassVar = "Hamiltonian system on a cotangent bundle"

    group: AbstractGroup
    energy: Callable[[Point, Momentum], Float[Array, ""]]
    kept_momenta: tuple[str, ...] = eqx.field(static=True, default=())
    counter: Counter | None = None

    @property
    def counts(self) -> bool:
        return self.counter is not None

    def count_turns(self, before: CotangentPoint, after: CotangentPoint, h: Any) -> CotangentPoint:
        return after if self.counter is None else self.counter.count_turns(before, after, h)

    def turn_failure(self, before: CotangentPoint, after: CotangentPoint) -> Array | None:
        return None if self.counter is None else self.counter.turn_failure(before, after)

    @property
    def state_space(self) -> Cotangent:
        return Cotangent(self.group)

    def gradients(self, g: Point, mu: Momentum) -> tuple[Vector, Momentum]:
        """(f₁, f₂) at a state, each of shape (d,)."""
        G = self.group

        def shifted_energy(xi: Vector, mu: Momentum) -> Float[Array, ""]:
            return self.energy(G.compose(G.increment(xi), g), mu)

        f2, f1 = jax.grad(shifted_energy, (0, 1))(jnp.zeros(G.dim), mu)
        return f1, -f2

    def velocity(self, t: Array, state: CotangentPoint) -> Vector:
        del t
        return jnp.concatenate(self.gradients(*state))

    def check(self, t: float, state: CotangentPoint) -> None:
        shape_of("energy(g, mu)", self.energy, state, (), "the energy")

    def residuals(self, t: Array, state: CotangentPoint) -> dict[str, Array]:
        del t
        return {"manifold": self.state_space.residual(state)}

    def invariants(self) -> dict[str, Observable]:
        return {"energy": lambda t, state: self.energy(*state)}

    def conversions(self) -> tuple[AbstractConversion, ...]:
        """The vector field on T*G, for explicit methods."""
        return (ToVectorField(self),)


class LiePoisson(AbstractSystem):
    r"""The reduction of a Hamiltonian system with symmetry to the dual of the algebra.

    $\dot\mu = \mp\mathrm{ad}^*_{\partial H/\partial\mu}\mu$, minus for an energy of the spatial momentum
    ("right"), plus for one of the momentum in the body ("left", as in Euler's equations). The motion stays on the
    coadjoint orbit of its start.

    **Arguments:**

    - `group`: the group G, dimension d, with the algebra so(3) or se(3).
    - `energy`: callable μ → H with μ of shape (d,).
    - `trivialisation`: "left" or "right".
    """

    kind_name: ClassVar = "Lie–Poisson system"

    group: AbstractRotationGroup | AbstractRigidGroup
    energy: Callable[[Momentum], Float[Array, ""]]
    trivialisation: Literal["left", "right"] = eqx.field(static=True, default="left")

    def __check_init__(self) -> None:
        checks.choice("trivialisation", self.trivialisation, ("left", "right"))

    @property
    def state_space(self) -> CoadjointOrbit:
        return CoadjointOrbit(self.group)

    def velocity(self, t: Array, state: Momentum) -> Vector:
        del t
        gradient = jax.grad(self.energy)(state)
        return -gradient if self.trivialisation == "left" else gradient

    def check(self, t: float, state: Momentum) -> None:
        shape_of("energy(mu)", self.energy, (state,), (), "the energy")

    def residuals(self, t: Array, state: Momentum) -> dict[str, Array]:
        del t
        return {"manifold": self.state_space.residual(state)}

    def invariants(self) -> dict[str, Observable]:
        return {"energy": lambda t, state: self.energy(state)}

    def conversions(self) -> tuple[AbstractConversion, ...]:
        """The vector field on the orbit."""
        return (ToVectorField(self),)
