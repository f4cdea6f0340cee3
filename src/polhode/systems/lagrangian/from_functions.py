"""Lagrangian systems from users' functions for kinetic energy, potential and constraints."""

from __future__ import annotations

from collections.abc import Callable

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks
from polhode.checks import short_repr
from polhode.jax_context import inside_transformation
from polhode.systems.base import State, shape_of
from polhode.systems.discrete_gradients import AbstractDiscreteGradient, Gonzalez, Through
from polhode.systems.lagrangian.abstract import AbstractLagrangian, Coordinates, Derivatives, Multipliers
from polhode.systems.lagrangian.starts import START_TOLERANCE


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
            raise ValueError(
                f"`size` must be the number of coordinates, a positive integer, got {short_repr(self.size)}."
            )
        if isinstance(self.number, bool) or not (isinstance(self.number, int | np.integer) and self.number >= 0):
            raise ValueError(
                f"`number` must be how many constraints there are, a whole number, got {short_repr(self.number)}."
            )
        if not isinstance(self.gradient, AbstractDiscreteGradient):
            raise ValueError(
                "`gradient` must be a discrete gradient, `Gonzalez()` or `MeanValue()`, got "
                f"{short_repr(self.gradient)}."
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

    def roundoff_gain(
        self, q0: Coordinates, v0: Coordinates, q1: Coordinates, v1: Coordinates
    ) -> tuple[Float[Array, ""], Float[Array, ""]]:
        D, T, zero = self.gradient, self.kinetic, jnp.zeros(())
        force = zero if self.potential is None else D.roundoff_gain(self.potential, q0, q1)
        if not callable(T):
            return zero, force
        if isinstance(T, Through):
            whole = Through(T.outer, lambda x: T.inner(x[: self.n], x[self.n :]))
            both = D.roundoff_gain(whole, jnp.concatenate((q0, v0)), jnp.concatenate((q1, v1)))
            return both, force + both
        return zero, force + D.roundoff_gain(lambda q: T(q, v0), q0, q1) + D.roundoff_gain(lambda q: T(q, v1), q0, q1)

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
        """Forces along massless coordinates must be in equilibrium; otherwise these jump from step to step."""
        momenta = jax.grad(self.kinetic_energy, 1)
        values, vectors = np.linalg.eigh(np.asarray(jax.jacfwd(momenta, 1)(q, v)))
        N = vectors[:, values <= 1e-12 * np.max(np.abs(values))]
        if not N.size:
            return
        inertial = jax.grad(self.kinetic_energy)(q, v) - jax.jvp(lambda q: momenta(q, v), (q,), (v,))[1]
        force = inertial - jax.grad(self.potential_energy)(q) + self.load(jnp.zeros(()), q, v)
        F = N.T @ np.asarray(force)
        B = N.T @ np.asarray(jax.jacfwd(self.constraint)(q)).reshape(self.m, self.n).T
        imbalance = F - B @ np.linalg.lstsq(B, F, rcond=None)[0] if self.m else F
        worst = float(np.max(np.abs(imbalance)))
        if not worst <= START_TOLERANCE * max(1.0, float(np.max(np.abs(np.asarray(force))))):
            along = np.round(N[:, int(np.argmax(np.abs(imbalance)))], 3).tolist()
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
