"""Separable systems: bodies without joints that interact through a potential of positions and attitudes."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode import checks
from polhode.spaces import component_arrays, quaternions
from polhode.spaces.component_arrays import Quaternions, Vectors
from polhode.spaces.linear import Rn
from polhode.spaces.powers import power
from polhode.spaces.products import product
from polhode.spaces.rotations import S3
from polhode.systems.base import AbstractSystem, Observable, State, shape_of


class BodyStates(NamedTuple):
    """Places and attitudes of n bodies and their velocities, all in the inertial frame.

    - `x`: centres of mass, shape (n, 3). - `q`: unit quaternions (w, x, y, z), body to inertial frame, shape (n, 4).
    - `v`, `omega`: velocities and angular velocities, shape (n, 3).
    """

    x: Float[Array, "n 3"]
    q: Float[Array, "n 4"]
    v: Float[Array, "n 3"]
    omega: Float[Array, "n 3"]


Rest = tuple[Array, ...]
"""The fields of a state besides places, attitudes and velocities."""


class PoseComponents(NamedTuple):
    """Places and attitudes of all bodies, component by component."""

    x: Vectors
    q: Quaternions


class Loads(NamedTuple):
    """Forces, and moments about the centres of mass in the inertial frame, component by component."""

    force: Vectors
    moment: Vectors


class Surroundings(NamedTuple):
    """Data on the bodies that are carried from step to step, such as neighbour lists; `result`: a `Result` code."""

    lists: Any
    result: Array


class Rates(NamedTuple):
    """Velocities and angular velocities in the inertial frame, component by component."""

    v: Vectors
    omega: Vectors


class Motion(NamedTuple):
    """Free motion of bodies for h to `places`, with constant velocities and about constant angular velocities.

    - `v`, `omega`: these, or the displacement over h and the mean of both ends where they change.
    - `before`: the loads that acted at its start, `t`.
    - `start`, `ends`: attitudes at its start, and velocities at its start and end; None where these are constant.
    - `gains`: what velocities gain from `v` and `omega` until the end of the step by the loads before; None for
      spherical bodies, for which that follows from `before`.
    """

    places: PoseComponents
    v: Vectors
    omega: Vectors
    h: Array
    before: Loads
    t: Array
    start: Quaternions | None = None
    ends: tuple[Rates, Rates] | None = None
    gains: Rates | None = None


class AbstractSeparable(AbstractSystem):
    r"""n bodies with $m\dot v = -\partial U/\partial x$ and $J\dot\Omega = \tau$, U of places and attitudes only.

    - `masses`: shape (n,).
    - `inertias`: of spherical bodies, shape (n,), or principal moments about the axes of the body, shape (n, 3).
    - `states`: the type of states: `BodyStates`, or the same with more fields.
    """

    kind_name: ClassVar = "system of bodies without joints"

    states: ClassVar[Callable[..., Any]] = BodyStates

    masses: eqx.AbstractVar[Float[Array, " n"]]
    inertias: eqx.AbstractVar[Array]

    @abc.abstractmethod
    def loads(self, places: PoseComponents, rest: Rest, around: Surroundings) -> Loads:
        """Loads on the bodies."""

    @abc.abstractmethod
    def potential_energy(self, state: State) -> Float[Array, ""]:
        """U."""

    def surroundings(self, places: PoseComponents, rest: Rest, t: Any) -> Surroundings:
        """The surroundings at the start, t."""
        del places, rest, t
        return Surroundings(None, jnp.zeros((), jnp.int32))

    def after_move(self, places: PoseComponents, rest: Rest, around: Surroundings, t: Any) -> tuple[Rest, Surroundings]:
        """The rest of the state and the surroundings after bodies have moved until t: neighbours, broken bonds."""
        del places, t
        return rest, around

    @property
    def has_history(self) -> bool:
        """Whether loads depend on how bodies came to their places, so that `loads_after` has to be asked."""
        return False

    def loads_after(self, motion: Motion, rest: Rest, around: Surroundings) -> tuple[Loads, Rest, Surroundings]:
        """Loads after bodies have moved, and what these leave in the rest of the state and the surroundings."""
        return self.loads(motion.places, rest, around), rest, around

    @property
    def damped(self) -> bool:
        """Whether some loads depend on velocities."""
        return False

    def drag(self, places: PoseComponents, v: Vectors, omega: Vectors, rest: Rest, around: Surroundings) -> Loads:
        """Loads that depend on velocities; evaluated only if `damped`."""
        del places, v, omega, rest, around
        zero = (jnp.zeros_like(self.masses),) * 3
        return Loads(zero, zero)

    @property
    def n(self) -> int:
        """Number of bodies."""
        return self.masses.shape[0]

    @property
    def spherical(self) -> bool:
        """Whether moments of inertia are the same about all axes."""
        return self.inertias.ndim == 1

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        """Invariants besides the energy that methods with these symmetries keep to round-off."""
        return ()

    @property
    def state_space(self) -> Any:
        flat = power(Rn(3), self.n)
        return product(flat, power(S3(), self.n), flat, flat)

    @property
    def state_hint(self) -> str:
        return "`polhode.systems.BodyStates(x, q, v, omega)` has arrays of shapes (n, 3), (n, 4), (n, 3) and (n, 3)."

    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        del t
        return {"manifold": jnp.max(jnp.abs(jnp.sum(jnp.square(state[1]), axis=1) - 1)) / 2}

    def spins(self, state: State) -> Float[Array, "n 3"]:
        """Angular momenta of the bodies about their centres of mass, in the inertial frame."""
        omega = state[3]
        if self.spherical:
            return self.inertias[:, None] * omega
        body = jax.vmap(lambda q, w: quaternions.rotate(quaternions.conjugate(q), w))(state[1], omega)
        return jax.vmap(quaternions.rotate)(state[1], self.inertias * body)

    def translational_energy(self, state: State) -> Float[Array, ""]:
        """Σ ½ m |v|²."""
        return 0.5 * jnp.sum(self.masses[:, None] * state[2] ** 2)

    def rotational_energy(self, state: State) -> Float[Array, ""]:
        """Σ ½ Ω·J Ω."""
        return 0.5 * jnp.sum(self.spins(state) * state[3])

    def energy(self, state: State) -> Float[Array, ""]:
        """T + U."""
        return self.translational_energy(state) + self.rotational_energy(state) + self.potential_energy(state)

    def linear_momentum(self, state: State) -> Float[Array, "3"]:
        """Σ m v."""
        return jnp.sum(self.masses[:, None] * state[2], axis=0)

    def spin(self, state: State) -> Float[Array, "3"]:
        """Σ J Ω."""
        return jnp.sum(self.spins(state), axis=0)

    def angular_momentum(self, state: State) -> Float[Array, "3"]:
        """Σ x × m v + J Ω, about the origin."""
        return self.spin(state) + jnp.sum(jnp.cross(state[0], self.masses[:, None] * state[2]), axis=0)

    def outputs(self) -> dict[str, Observable]:
        return {"positions": lambda t, state: state[0], "angular_velocities": lambda t, state: state[3]}

    def invariants(self) -> dict[str, Observable]:
        return {"energy": lambda t, state: self.energy(state)}


class Separable(AbstractSeparable):
    r"""Bodies with a potential given as a function; forces and moments by differentiation.

    **Arguments:**

    - `masses`: shape (n,). - `inertias`: shape (n,) for spherical bodies, or principal moments (n, 3).
    - `potential`: callable (x, R) → U, a number, for x of shape (n, 3) and rotation matrices R of shape (n, 3, 3).
      It is differentiated along rotations only.

    Raises ValueError for masses and inertias that are not positive or don't match.
    """

    masses: Float[Array, " n"]
    inertias: Array
    potential: Callable[[Float[Array, "n 3"], Float[Array, "n 3 3"]], Float[Array, ""]]

    def __init__(self, masses: Any, inertias: Any, potential: Callable[..., Any]) -> None:
        shape = checks.shape("masses", masses, "mass of every body")
        n = shape[0] if shape else 1
        self.masses = checks.positive("masses", masses, (n,), "mass of every body")
        moments = checks.shape("inertias", inertias, "moments of inertia of every body")
        shape = (n, 3) if len(moments) == 2 else (n,)
        self.inertias = checks.positive("inertias", inertias, shape, "moments of inertia of every body")
        self.potential = potential

    def loads(self, places: PoseComponents, rest: Rest, around: Surroundings) -> Loads:
        del rest, around
        x, q = component_arrays.rows(places.x), component_arrays.rows(places.q)
        R = jax.vmap(quaternions.to_matrix)(q)
        of_x, of_R = jax.grad(self.potential, (0, 1))(x, R)
        # -dU = τ·η for R → exp(η)R.
        P = jnp.einsum("nij,nkj->nik", of_R, R)
        moment = tuple(P[:, i, j] - P[:, j, i] for i, j in ((1, 2), (2, 0), (0, 1)))
        return Loads(component_arrays.columns(-of_x), moment)

    def potential_energy(self, state: State) -> Float[Array, ""]:
        return self.potential(state[0], jax.vmap(quaternions.to_matrix)(state[1]))

    def check(self, t: float, state: State) -> None:
        del t
        n = self.n
        shapes = jax.ShapeDtypeStruct((n, 3), float), jax.ShapeDtypeStruct((n, 3, 3), float)
        shape_of("potential(x, R)", self.potential, shapes, (), "the potential energy")
