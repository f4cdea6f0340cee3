"""Equations of Lagrangian systems, their states and the averages that energy–momentum steps take."""

from __future__ import annotations

import abc
from typing import Any, ClassVar, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.compiler.numpy_jit import numpy_jit
from polhode.jax_context import inside_transformation
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.systems.base import AbstractSystem, Observable, State, shape_of
from polhode.systems.lagrangian.starts import COARSE_TOLERANCE, Gaps, check_gaps, check_momenta

Coordinates = Float[Array, " n"]
Multipliers = Float[Array, " m"]


class LivensState(NamedTuple):
    """Coordinates q, velocities v and momenta p, each of shape (n,).

    Methods keep p = ∂L/∂v at the start; later on it holds on average over steps only, unless the mass is constant.
    """

    q: Coordinates
    v: Coordinates
    p: Coordinates


class CountedLivensState(NamedTuple):
    """A `LivensState` of a model that counts angles: `turns`, shape (k,)."""

    q: Coordinates
    v: Coordinates
    p: Coordinates
    turns: Float[Array, " k"]


class Derivatives(NamedTuple):
    """Averages over a step: of ∂T/∂q, ∂T/∂v and ∂V/∂q, shape (n,) each, and of the constraints' Jacobian, (m, n)."""

    kinetic_q: Coordinates
    kinetic_v: Coordinates
    potential: Coordinates
    constraint: Float[Array, "m n"]


class AbstractLagrangian(AbstractSystem):
    r"""Livens' principle: $\dot q = v,\ \dot p = \partial_q L - \nabla g^T\lambda + f,\ p = \partial_v L,\ g(q) = 0$
    with $L = T(q, v) - V(q)$.

    Coordinates may be redundant, the mass matrix ∂²T/∂v² singular or dependent on q. T is a quadratic form in v.
    States are `LivensState`s; `start` makes one from q and v.

    Subclasses define `n`, `m`, `kinetic_energy`, `potential_energy`, `constraint` and `discrete_derivatives`.
    """

    kind_name: ClassVar = "Lagrangian system"

    @property
    @abc.abstractmethod
    def n(self) -> int:
        """Number of coordinates."""

    @property
    @abc.abstractmethod
    def m(self) -> int:
        """Number of constraints; 0 if there are none."""

    @abc.abstractmethod
    def kinetic_energy(self, q: Coordinates, v: Coordinates) -> Float[Array, ""]:
        """T."""

    @abc.abstractmethod
    def potential_energy(self, q: Coordinates) -> Float[Array, ""]:
        """V."""

    @abc.abstractmethod
    def constraint(self, q: Coordinates) -> Multipliers:
        """g, shape (m,)."""

    @abc.abstractmethod
    def discrete_derivatives(self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates) -> Derivatives:
        """Discrete derivatives: their products with the changes of q and v are the changes of the energies."""

    def load(self, t: Array, q: Coordinates, v: Coordinates) -> Coordinates:
        """f: generalised forces besides those of V, shape (n,)."""
        del t, v
        return jnp.zeros_like(q)

    @property
    def conservative(self) -> bool:
        """Whether there is no load."""
        return True

    def roundoff_gain(
        self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Factors by which `discrete_derivatives` amplify the round-off ε of energies: in momenta, and in forces."""
        return jnp.zeros(()), jnp.zeros(())

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        """Names of momenta whose symmetry the discrete derivatives respect: methods keep them to round-off."""
        return ()

    @property
    def pivots(self) -> bool:
        """Whether linear equations of a step need pivoting."""
        return True

    def midpoint_derivatives(self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates) -> Derivatives:
        """The derivatives at (q̄, v̄)."""
        q, v = 0.5 * (q0 + q1), 0.5 * (v0 + v1)
        Tq, Tv = jax.grad(self.kinetic_energy, (0, 1))(q, v)
        B = jax.jacfwd(self.constraint)(q) if self.m else jnp.zeros((0, self.n))
        return Derivatives(Tq, Tv, jax.grad(self.potential_energy)(q), B)

    def initial_guess(self, h: Array, q: Coordinates, v: Coordinates) -> Coordinates:
        """Initial guess of the coordinates at the end of a step."""
        return q + h * v

    def momenta(self, q: Coordinates, v: Coordinates) -> Coordinates:
        """p = ∂L/∂v."""
        return jax.grad(self.kinetic_energy, 1)(q, v)

    def start(self, q: Any, v: Any) -> LivensState:
        """The state with consistent momenta."""
        q = checks.array("q", q, (self.n,), "coordinates")
        v = checks.array("v", v, (self.n,), "velocities")
        return LivensState(q, v, self.momenta(q, v))

    @property
    def state_space(self) -> Any:
        return product(Rn(self.n), Rn(self.n), Rn(self.n))

    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        del t
        if not self.m:
            return {}
        gap, rate = jax.jvp(self.constraint, (state.q,), (state.v,))
        return {"position": jnp.max(jnp.abs(gap)), "velocity": jnp.max(jnp.abs(rate))}

    def generalised_energy(self, state: State) -> Float[Array, ""]:
        """E = p·v - L, which energy–momentum methods keep."""
        return state.p @ state.v - self.kinetic_energy(state.q, state.v) + self.potential_energy(state.q)

    def total_energy(self, state: State) -> Float[Array, ""]:
        """T + V at the velocities v; equal to E where p = ∂L/∂v."""
        return self.kinetic_energy(state.q, state.v) + self.potential_energy(state.q)

    def invariants(self) -> dict[str, Observable]:
        return {"energy": lambda t, state: self.generalised_energy(state)} if self.conservative else {}

    def outputs(self) -> dict[str, Observable]:
        return {
            "coordinates": lambda t, state: state.q,
            "velocities": lambda t, state: state.v,
            "total_energy": lambda t, state: self.total_energy(state),
        }

    def check(self, t: float, state: State) -> None:
        """Raises ValueError for states of wrong shapes, or whose positions, velocities or momenta are inconsistent."""
        if not (isinstance(state, tuple) and len(state) >= 3 and all(jnp.shape(x) == (self.n,) for x in state[:3])):
            shapes = [jnp.shape(x) for x in state] if isinstance(state, tuple | list) else type(state).__name__
            raise ValueError(
                f"`state0` must be a LivensState (q, v, p) with arrays of shape ({self.n},), got {shapes}; "
                "`system.start(q, v)` makes one."
            )
        state = LivensState(*state[:3])
        if self.m:
            shape_of("constraints(q)", self.constraint, (state.q,), (self.m,), "as many as `number` says")
        if not inside_transformation():
            if self.m:
                self._check_constraints(state)
            check_momenta(state.p, self.momenta(state.q, state.v))

    @property
    def state_hint(self) -> str:
        return "`system.start(q, v)` makes a state."

    def _check_constraints(self, state: LivensState) -> None:
        gap, rate = (np.asarray(x) for x in _start_gaps(self, state.q, state.v))
        check_gaps(
            Gaps("coordinates", gap, state.q, "Solve g(q) = 0 for q."),
            Gaps("velocities", rate, state.v, "Take from v its part across the constraints.", COARSE_TOLERANCE),
        )


class AbstractParametrisedLagrangian(AbstractLagrangian):
    """A Lagrangian system that knows increments along its constraints, which the null-space form of a step needs."""

    @property
    @abc.abstractmethod
    def null_dim(self) -> int:
        """Number r of increments, n - m where the constraints are independent."""

    @abc.abstractmethod
    def advance(self, q: Coordinates, x: Float[Array, " r"]) -> Coordinates:
        """Coordinates that satisfy all constraints, at increments x from q."""

    @abc.abstractmethod
    def increments(self, h: Array, q: Coordinates, v: Coordinates) -> Float[Array, " r"]:
        """Initial guess of the increments x of a step with velocities v."""

    @abc.abstractmethod
    def project(self, q0: Coordinates, q1: Coordinates, force: Coordinates) -> Float[Array, " r"]:
        """Projection of a generalised force on the null space of the constraints' mean gradients."""


@numpy_jit
def _start_gaps(system: AbstractLagrangian, q: Coordinates, v: Coordinates) -> tuple[Array, Array]:
    return jax.jvp(system.constraint, (q,), (v,))
