"""Lagrangian systems in the sense of Livens: positions, velocities and momenta as independent variables."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode._ambient import inside_transformation, warn
from polhode.checks import shown
from polhode.execution.once import interpreted
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.systems.base import AbstractSystem, Observable, State, shape_of
from polhode.systems.discrete_gradients import AbstractDiscreteGradient, Gonzalez, Through

Coordinates = Float[Array, " n"]
Multipliers = Float[Array, " m"]

START_TOLERANCE = 1e-6
"""Largest |g| of a given start, relative to the larger of 1 and the largest coordinate."""


COARSE_TOLERANCE = 0.1
"""Largest relative gap of velocities or momenta at the end of a step from which a run may go on."""


class StartWarning(UserWarning):
    """A start whose velocities or momenta are off, as the ends of energy–momentum steps may be."""


class LivensState(NamedTuple):
    """Coordinates q, velocities v and momenta p, each of shape (n,).

    Methods keep p = ∂L/∂v at the start; later on it holds on average over steps only, unless the mass is constant.
    """

    q: Coordinates
    v: Coordinates
    p: Coordinates


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

    Subclasses give `n`, `m`, `kinetic_energy`, `potential_energy` and `constraint`, and may know better
    `mean_derivatives` than differentiation finds.
    """

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
        """Averages for which energies change by their products with the changes of q and v."""

    def load(self, t: Array, q: Coordinates, v: Coordinates) -> Coordinates:
        """f: generalised forces besides those of V, shape (n,)."""
        del t, v
        return jnp.zeros_like(q)

    @property
    def conservative(self) -> bool:
        """Whether there is no load."""
        return True

    def magnified(
        self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        """Round-off of energies as `discrete_derivatives` magnify it, over ε: in momenta, and in forces."""
        return jnp.zeros(()), jnp.zeros(())

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        """Momenta, by name, whose symmetry the averages of derivatives respect: methods keep them to round-off."""
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

    def predicted(self, h: Array, q: Coordinates, v: Coordinates) -> Coordinates:
        """Where to begin to look for the coordinates at the end of a step."""
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
        """Refuses a start of other shapes, off the constraints, or across them. Raises ValueError."""
        if not (isinstance(state, tuple) and len(state) == 3 and all(jnp.shape(x) == (self.n,) for x in state)):
            shapes = [jnp.shape(x) for x in state] if isinstance(state, tuple | list) else type(state).__name__
            raise ValueError(
                f"`state0` must be a LivensState (q, v, p) with arrays of shape ({self.n},), got {shapes}; "
                "`system.start(q, v)` makes one."
            )
        if self.m:
            shape_of("constraints(q)", self.constraint, (state[0],), (self.m,), "as many as `number` says")
        if not inside_transformation():
            state = LivensState(*state)
            if self.m:
                self._check_constraints(state)
            check_momenta(state.p, self.momenta(state.q, state.v))

    @property
    def state_hint(self) -> str:
        return "`system.start(q, v)` makes a state."

    def _check_constraints(self, state: LivensState) -> None:
        gap, rate = (np.asarray(x) for x in _start_gaps(self, state.q, state.v))
        check_gaps("coordinates", gap, state.q, "Solve g(q) = 0 for q.")
        check_gaps("velocities", rate, state.v, "Take from v its part across the constraints.", COARSE_TOLERANCE)


def check_gaps(what: str, values: Any, at: Any, remedy: str, tolerance: float = START_TOLERANCE) -> None:
    """Raises ValueError for violated constraints; warns between `START_TOLERANCE` and a larger `tolerance`."""
    values, largest = np.abs(np.asarray(values)), max(1.0, float(np.max(np.abs(np.asarray(at)), initial=0.0)))
    worst = int(np.argmax(np.where(np.isfinite(values), values, np.inf)))
    if values[worst] <= START_TOLERANCE * largest:
        return
    said = f"`state0` violates the constraints on {what}: number {worst} of {len(values)} by {values[worst]:.3g}."
    if not values[worst] <= tolerance * largest:
        raise ValueError(f"{said} {remedy}")
    warn(f"{said} The ends of steps of `eml` do, so that is right for going on with a run.", StartWarning)


def check_momenta(given: Any, expected: Any) -> None:
    """Raises ValueError for p far from ∂L/∂v, and warns where it is off by as much as the ends of steps may be."""
    gap = float(np.max(np.abs(np.asarray(given) - np.asarray(expected)), initial=0.0))
    largest = max(1.0, float(np.max(np.abs(np.asarray(expected)), initial=0.0)))
    if gap <= START_TOLERANCE * largest:
        return
    said = f"`state0` has momenta that differ from ∂L/∂v by {gap:.3g}, where the largest is {largest:.3g}."
    if not gap <= COARSE_TOLERANCE * largest:
        raise ValueError(f"{said} `system.start(q, v)` makes a state with consistent ones.")
    warn(f"{said} The ends of steps of `eml` do, so that is right for going on with a run.", StartWarning)


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
        """The increments x of a step with velocities v, to begin with."""

    @abc.abstractmethod
    def project(self, q0: Coordinates, q1: Coordinates, force: Coordinates) -> Float[Array, " r"]:
        """Components of a generalised force that the constraints' mean gradients have no part in."""


@interpreted
def _start_gaps(system: AbstractLagrangian, q: Coordinates, v: Coordinates) -> tuple[Array, Array]:
    return jax.jvp(system.constraint, (q,), (v,))


class Lagrangian(AbstractLagrangian):
    r"""A Lagrangian system from functions.

    **Arguments:**

    - `size`: number n of coordinates.
    - `kinetic`: callable (q, v) → T, a quadratic form in v; the mass matrix may be singular and depend on q. Or the
      constant mass matrix itself, shape (n, n).
    - `potential`: callable q → V, or None.
    - `constraints`: callable q → g of shape (m,), or None.
    - `number`: m; 0 without constraints.
    - `loads`: callable (t, q, v) → generalised forces of shape (n,), or None.
    - `gradient`: how averages are taken, `Gonzalez()` or `MeanValue()`.

    `kinetic`, `potential` and `constraints` may be a `Through`: a function of quadratic invariants, whose discrete
    gradient then respects their symmetry. Otherwise that of T is partitioned:
    $\bar\partial_qT = \tfrac12[\bar\nabla_qT(q_0,q_1;v_0)+\bar\nabla_qT(q_0,q_1;v_1)]$ and
    $\bar\partial_vT = \tfrac12[\nabla_vT(q_0,\bar v)+\nabla_vT(q_1,\bar v)]$.

    ??? cite "Reference"
        P. L. Kinon, P. Betsch, Conserving integration of multibody systems with singular and non-constant mass matrix
        including quaternion-based rigid body dynamics, equations (72) to (83).
    """

    size: int = eqx.field(static=True)
    kinetic: Callable[[Coordinates, Coordinates], Float[Array, ""]] | Float[Array, "n n"]
    potential: Callable[[Coordinates], Float[Array, ""]] | None = None
    constraints: Callable[[Coordinates], Multipliers] | None = None
    number: int = eqx.field(static=True, default=0)
    loads: Callable[[Array, Coordinates, Coordinates], Coordinates] | None = None
    gradient: AbstractDiscreteGradient = Gonzalez()

    def __check_init__(self) -> None:
        if isinstance(self.size, bool) or not (isinstance(self.size, int | np.integer) and self.size > 0):
            raise ValueError(f"`size` must be the number of coordinates, a positive integer, got {shown(self.size)}.")
        if isinstance(self.number, bool) or not (isinstance(self.number, int | np.integer) and self.number >= 0):
            raise ValueError(
                f"`number` must be how many constraints there are, a whole number, got {shown(self.number)}."
            )
        if not isinstance(self.gradient, AbstractDiscreteGradient):
            raise ValueError(
                f"`gradient` must be a discrete gradient, `Gonzalez()` or `MeanValue()`, got {shown(self.gradient)}."
            )
        if (self.constraints is None) != (self.number == 0):
            raise ValueError(
                f"`number` must be the length of what `constraints` returns, got number={self.number} "
                f"{'without' if self.constraints is None else 'with'} `constraints`."
            )
        if not callable(self.kinetic) and jnp.shape(self.kinetic) != (self.size, self.size):
            raise ValueError(
                f"`kinetic` must be a function (q, v) → T or a mass matrix of shape {(self.size, self.size)}, got "
                f"shape {jnp.shape(self.kinetic)}."
            )
        if not callable(self.kinetic) and checks.is_concrete(self.kinetic):
            _check_mass(np.asarray(self.kinetic, dtype=float))

    @property
    def n(self) -> int:
        return self.size

    @property
    def m(self) -> int:
        return self.number

    @property
    def conservative(self) -> bool:
        return self.loads is None

    def kinetic_energy(self, q: Coordinates, v: Coordinates) -> Float[Array, ""]:
        return self.kinetic(q, v) if callable(self.kinetic) else 0.5 * v @ (jnp.asarray(self.kinetic) @ v)

    def potential_energy(self, q: Coordinates) -> Float[Array, ""]:
        return jnp.zeros(()) if self.potential is None else self.potential(q)

    def constraint(self, q: Coordinates) -> Multipliers:
        return jnp.zeros(0) if self.constraints is None else self.constraints(q)

    def load(self, t: Array, q: Coordinates, v: Coordinates) -> Coordinates:
        return super().load(t, q, v) if self.loads is None else self.loads(t, q, v)

    def discrete_derivatives(self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates) -> Derivatives:
        D, zero = self.gradient, jnp.zeros(self.n)
        V = zero if self.potential is None else D(self.potential, q0, q1)
        B = jnp.zeros((0, self.n)) if self.constraints is None else D(self.constraints, q0, q1)
        return Derivatives(*self._discrete_kinetic(q0, v0, q1, v1), V, B)

    def magnified(
        self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        D, T, zero = self.gradient, self.kinetic, jnp.zeros(())
        force = zero if self.potential is None else D.magnified(self.potential, q0, q1)
        if not callable(T):
            return zero, force
        if isinstance(T, Through):
            whole = Through(T.outer, lambda x: T.inner(x[: self.n], x[self.n :]))
            both = D.magnified(whole, jnp.concatenate((q0, v0)), jnp.concatenate((q1, v1)))
            return both, force + both
        return zero, force + D.magnified(lambda q: T(q, v0), q0, q1) + D.magnified(lambda q: T(q, v1), q0, q1)

    def _discrete_kinetic(
        self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates
    ) -> tuple[Coordinates, Coordinates]:
        T, D, v = self.kinetic, self.gradient, 0.5 * (v0 + v1)
        if not callable(T):
            return jnp.zeros(self.n), jnp.asarray(T) @ v
        if isinstance(T, Through):
            start, end = jnp.concatenate((q0, v0)), jnp.concatenate((q1, v1))
            both = D(Through(T.outer, lambda x: T.inner(x[: self.n], x[self.n :])), start, end)
            return both[: self.n], both[self.n :]
        Tq = 0.5 * (D(lambda q: T(q, v0), q0, q1) + D(lambda q: T(q, v1), q0, q1))
        Tv = 0.5 * (jax.grad(T, 1)(q0, v) + jax.grad(T, 1)(q1, v))
        return Tq, Tv

    def check(self, t: float, state: State) -> None:
        q, v, _ = state
        if callable(self.kinetic):
            shape_of("kinetic(q, v)", self.kinetic, (q, v), (), "the kinetic energy")
        if self.potential is not None:
            shape_of("potential(q)", self.potential, (q,), (), "the potential energy")
        if self.loads is not None:
            shape_of("loads(t, q, v)", self.loads, (jnp.asarray(t), q, v), (self.n,), "one load for each coordinate")
        if not inside_transformation():
            self._check_forms(q, v)
        super().check(t, state)

    def _check_forms(self, q: Coordinates, v: Coordinates) -> None:
        """T must be quadratic in v, and the inner functions of compositions of degree 2."""
        rng = np.random.default_rng(0)
        a, b = (jnp.asarray(rng.standard_normal(self.n)) for _ in range(2))
        if callable(self.kinetic):
            once, twice = self.kinetic(q, v + a), self.kinetic(q, 2 * (v + a))
            if not abs(float(twice - 4 * once)) <= 1e-8 * (1 + abs(float(once))):
                raise ValueError(
                    "`kinetic` must be a quadratic form in v: T(q, 2v) = 4 T(q, v). At the start, T(q, v + a) = "
                    f"{float(once):g} and T(q, 2(v + a)) = {float(twice):g}. Put other parts into `loads`."
                )
        self._check_massless(q, v)
        for name, f, x in (
            ("kinetic", self.kinetic, (q, v)),
            ("potential", self.potential, (q,)),
            ("constraints", self.constraints, (q,)),
        ):
            if isinstance(f, Through):
                _check_degree(name, f.inner, x, tuple(c for c, _ in zip((a, b), x, strict=False)))

    def _check_massless(self, q: Coordinates, v: Coordinates) -> None:
        """Forces along coordinates without mass must be in balance: otherwise these jump from step to step."""
        momenta = jax.grad(self.kinetic_energy, 1)
        values, vectors = np.linalg.eigh(np.asarray(jax.jacfwd(momenta, 1)(q, v)))
        N = vectors[:, values <= 1e-12 * np.max(np.abs(values))]
        if not N.size:
            return
        turning = jax.grad(self.kinetic_energy)(q, v) - jax.jvp(lambda q: momenta(q, v), (q,), (v,))[1]
        force = turning - jax.grad(self.potential_energy)(q) + self.load(jnp.zeros(()), q, v)
        F = N.T @ np.asarray(force)
        B = N.T @ np.asarray(jax.jacfwd(self.constraint)(q)).reshape(self.m, self.n).T
        left = F - B @ np.linalg.lstsq(B, F, rcond=None)[0] if self.m else F
        worst = float(np.max(np.abs(left)))
        if not worst <= START_TOLERANCE * max(1.0, float(np.max(np.abs(np.asarray(force))))):
            along = np.round(N[:, int(np.argmax(np.abs(left)))], 3).tolist()
            raise ValueError(
                f"The mass matrix `kinetic` is singular, and the forces along its null space, {along}, are not in "
                f"balance at the start: {worst:.3g} is left over. Solve for these coordinates first, or give them mass."
            )


def _check_mass(M: np.ndarray) -> None:
    largest = float(np.max(np.abs(M)))
    if not np.isfinite(largest):
        raise ValueError(f"`kinetic` holds a mass matrix that is not finite: {M.tolist()}.")
    if np.max(np.abs(M - M.T)) > 1e-12 * largest:
        raise ValueError(f"`kinetic` must be a symmetric mass matrix, got {M.tolist()}; take ½(M + Mᵀ).")
    least = float(np.min(np.linalg.eigvalsh(M)))
    if least < -1e-12 * largest:
        raise ValueError(f"`kinetic` must be a mass matrix without negative eigenvalues; the least one is {least:.3g}.")


def _check_degree(name: str, inner: Callable[..., Array], x: tuple[Array, ...], step: tuple[Array, ...]) -> None:
    end = tuple(a + b for a, b in zip(x, step, strict=True))
    middle = tuple(a + 0.5 * b for a, b in zip(x, step, strict=True))
    change = inner(*end) - inner(*x)
    gap = float(jnp.max(jnp.abs(change - jax.jvp(inner, middle, step)[1])))
    if not gap <= 1e-8 * (1 + float(jnp.max(jnp.abs(change)))):
        raise ValueError(
            f"`inner` of `{name}` must be quadratic, so that its midpoint derivative is exact; it is off by {gap:.2g} "
            "over a step of size 1. Take squares and products of coordinates for `inner`, the rest for `outer`."
        )
