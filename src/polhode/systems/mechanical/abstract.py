"""Equations of mechanical systems, their derivatives and the checks of starts."""

from __future__ import annotations

import abc
from collections.abc import Callable
from typing import Any, ClassVar

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.numpy_jit import numpy_jit
from polhode.compiler.primitives.backend_query import lapack_or
from polhode.jax_context import inside_transformation
from polhode.linalg.blocks import Matrix, apply, apply_transposed, dense_block
from polhode.linalg.inverse_border import bordered_solver
from polhode.linalg.kkt import AbstractKKT
from polhode.linalg.solver_choice import library_solver
from polhode.linalg.symmetric_solution import solve_symmetric
from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.spaces.linear import Rn
from polhode.spaces.products import product
from polhode.systems.base import AbstractConversion, AbstractSystem, State
from polhode.systems.mechanical.contact_set import AbstractContactSet
from polhode.systems.mechanical.tangent import Tangent, Weights, sum_of_tangents
from polhode.systems.vector_field import ToVectorField

Multipliers = Float[Array, " m"]

START_TOLERANCE = 1e-6
"""Largest |Φ| and |B v + ∂Φ/∂t| of a given start, relative to the larger of 1 and the largest |q| or |v|."""

_DENSE = 600
"""Unknowns up to which one dense solution takes less time than the compilation of a sparse one: 7 ms."""


_DRIFT = "constraints are kept by their accelerations: positions and velocities leave them by the error of the method"


class AbstractMechanical(AbstractSystem):
    r"""Equations of motion $\dot q = q\cdot\tilde\nu,\ \nu = H(q)v,\ M(t,q)\dot v = f(t,q,v) - B(t,q)^T\lambda,\
    \Phi(t,q) = 0$.

    States are pairs (q, v): a point of `configuration` and n velocities. B is defined by the time derivative of the
    constraint, $\dot\Phi = B(t,q)v + \partial_t\Phi$. Whether the constraint is imposed on the level of positions,
    velocities or accelerations is the integrator's choice.

    Some rows may be `nonholonomic`: conditions $B(t,q)v + b(t,q) = 0$ that can't be integrated, such as
    those of rolling. There Φ is identically zero, and `constraint_rate` is what must vanish.

    Subclasses define `configuration`, `n`, `m`, `mass`, `force` and `constraint`; everything else follows by automatic
    differentiation and can be overridden with something cheaper. Matrices are sums of stacked blocks
    (`polhode.linalg.blocks`), solved by `kkt`.
    """

    kind_name: ClassVar = "mechanical system with a mass matrix"

    @property
    @abc.abstractmethod
    def configuration(self) -> AbstractSpace:
        """The space of q."""

    def as_state(self, state: Any, name: str) -> State:
        """See `AbstractSystem.as_state`. Raises ValueError for named tuples, which are states of other kinds."""
        if hasattr(state, "_fields"):
            raise ValueError(
                f"`{name}` is a {type(state).__name__} ({', '.join(state._fields)}), as some methods write states, and "
                "here it is to be a plain pair (q, v). Where it is the end of a run, begin in that run: `initial=run`."
            )
        return super().as_state(state, name)

    @property
    @abc.abstractmethod
    def n(self) -> int:
        """Number of velocities."""

    @property
    @abc.abstractmethod
    def m(self) -> int:
        """Number of constraints; 0 if there are none."""

    @abc.abstractmethod
    def mass(self, t: Array, q: Point) -> Matrix:
        """M, symmetric and positive definite on the velocities that the constraints allow."""

    @abc.abstractmethod
    def force(self, t: Array, q: Point, v: Vector) -> Vector:
        """f: applied, gyroscopic and velocity-dependent inertial forces, shape (n,)."""

    @abc.abstractmethod
    def constraint(self, t: Array, q: Point) -> Multipliers:
        """Φ, shape (m,)."""

    @property
    @abc.abstractmethod
    def kkt(self) -> AbstractKKT:
        """The solver for matrices made of M, K, C and B."""

    @property
    def identity_kinematics(self) -> bool:
        """Whether ν = v, that is, `kinematics` is the identity."""
        return True

    @property
    def has_costly_tangent(self) -> bool:
        """Whether M, K and C, factorised, cost as much as several evaluations of forces."""
        return False

    @property
    def nonholonomic(self) -> np.ndarray:
        """Numbers of the constraints on velocities alone, in ascending order; none by default."""
        return np.zeros(0, int)

    @property
    def rheonomic(self) -> bool:
        """Whether Φ may depend on time."""
        return True

    def kinematics(self, q: Point, v: Vector) -> Vector:
        """ν, the algebra element with which q moves; linear in v."""
        del q
        return v

    @property
    def contact_set(self) -> AbstractContactSet | None:
        """Contacts with unilateral laws and friction; None without any."""
        return None

    @property
    def has_contacts(self) -> bool:
        return self.contact_set is not None

    @property
    def kept_momenta(self) -> tuple[str, ...]:
        """Names of invariants that are momenta which steps keep if they are made of free motion and inner impulses."""
        return ()

    @property
    def has_loads(self) -> bool:
        """Whether other forces than weight and inertia may act."""
        return True

    @property
    def screws(self) -> np.ndarray:
        """Numbers of velocities (Ω, U), shape (k, 6), of free bodies that constant ones move along screws."""
        return np.empty((0, 6), int)

    def flow(self, q: Point, v: Vector, s: Any) -> Point:
        """A curve through q with velocity v, at parameter s."""
        return self.configuration.move(q, s * self.kinematics(q, v))

    def constraint_rate(self, t: Array, q: Point, v: Vector) -> Multipliers:
        """dΦ/dt = B v + ∂Φ/∂t, shape (m,); systems with `nonholonomic` rows override it."""
        return _derivative(lambda s: self.constraint(t + s, self.flow(q, v, s)))

    def jacobian(self, t: Array, q: Point) -> Matrix:
        """B, m×n."""
        zero = jnp.zeros(self.n)
        if self.identity_kinematics and not len(self.nonholonomic):
            # One differentiation where the rate of the constraint would take two.
            return dense_block(jax.jacfwd(lambda theta: self.constraint(t, self.configuration.move(q, theta)))(zero))
        return dense_block(jax.jacfwd(lambda v: self.constraint_rate(t, q, v))(zero))

    def jacobian_terms(self, t: Array, q: Point) -> Float[Array, "m n"] | None:
        """Sizes of the terms whose sums the entries of B are, where these may cancel; otherwise None."""
        del t, q
        return None

    def curvature(self, t: Array, q: Point, v: Vector) -> Multipliers:
        """Z: the second time derivative of Φ when v is frozen, so that B v̇ + Z = 0 on the level of accelerations."""
        return _derivative(lambda s: self.constraint_rate(t + s, self.flow(q, v, s), v))

    def stiffness(self, t: Array, q: Point, v: Vector) -> Matrix:
        """K: minus the derivative of f along θ in move(q, θ), n×dim of the algebra."""
        space = self.configuration
        zero = jnp.zeros(space.dim)
        return dense_block(-jax.jacfwd(lambda theta: self.force(t, space.move(q, theta), v))(zero))

    def damping(self, t: Array, q: Point, v: Vector) -> Matrix:
        """C: minus the derivative of f with respect to v, n×n."""
        return dense_block(-jax.jacfwd(lambda u: self.force(t, q, u))(v))

    def tangent(self, t: Array, q: Point, v: Vector, increment: Vector | None, weights: Weights) -> Tangent:
        """The weighted sum of M, C and K T, with the tangent operator T at an increment, if there is one."""
        return sum_of_tangents(self, t, q, v, increment, weights)

    def constraint_force(self, t: Array, q: Point, multipliers: Multipliers) -> Vector:
        """Bᵀλ, shape (n,); it acts with a minus sign."""
        return apply_transposed(self.jacobian(t, q), multipliers, self.n)

    def geometric_stiffness(self, t: Array, q: Point, multipliers: Multipliers) -> Matrix:
        """The derivative of Bᵀλ along θ in move(q, θ) at fixed λ, n×dim of the algebra."""
        if self.m == 0:
            return ()
        space = self.configuration
        zero = jnp.zeros(space.dim)
        return dense_block(jax.jacfwd(lambda theta: self.constraint_force(t, space.move(q, theta), multipliers))(zero))

    def stresses(self, t: Array, q: Point) -> Any:
        """Stresses of elements at rest, in which their loads are linear, a pytree; empty where unknown."""
        del t, q
        return ()

    def stress_stiffness(self, t: Array, q: Point, stresses: Any) -> Matrix:
        """The part of K at fixed stresses, as `stresses` returns them; linear in these."""
        del t, q, stresses
        return ()

    @eager_numpy()
    def accelerations(self, t: Array, q: Point, v: Vector) -> tuple[Vector, Multipliers]:
        """v̇ and λ that keep the constraint on the level of accelerations.

        Constrained methods need them at the start only, so LAPACK, which compiles at once and pivots, replaces the
        solver of the step there, except in native code.
        """
        return self.accelerations_under(t, q, v, None)

    def accelerations_under(self, t: Array, q: Point, v: Vector, effort: Vector | None) -> tuple[Vector, Multipliers]:
        """The same with further generalised forces, if there are any."""
        Z = self.curvature(t, q, v) if self.m else jnp.zeros(0)
        f = self.force(t, q, v)
        return self._balance(t, q, f if effort is None else f + effort, Z)

    def multipliers_at(self, t: Array, state: tuple[Point, Vector]) -> Multipliers | None:
        """λ of `accelerations` in a state; None without constraints."""
        return self.accelerations(t, *state)[1] if self.m else None

    def resting_multipliers(self, t: Array, q: Point) -> Multipliers:
        """λ of constraints that stand still, as at equilibria: M a + Bᵀλ = f and B a = 0, whatever drives do later."""
        return self._balance(t, q, self.force(t, q, jnp.zeros(self.n)), jnp.zeros(self.m))[1]

    def _balance(self, t: Array, q: Point, f: Vector, Z: Multipliers) -> tuple[Vector, Multipliers]:
        """a and λ with M a + Bᵀλ = f and B a = -Z."""
        inverse = self.inverse_mass(t, q)
        if inverse is not None:
            B = self.jacobian(t, q) if self.m else ()
            return bordered_solver(inverse, B, B, self.n, self.m)(f, -Z)
        B, M = self.jacobian(t, q), self.mass(t, q)

        def product(a: Vector, multipliers: Multipliers) -> tuple[Vector, Multipliers]:
            momentum = self.momentum(t, q, a)
            if not self.m:
                return momentum, multipliers
            return momentum + apply_transposed(B, multipliers, self.n), apply(B, a, self.m)

        if self.m == 0 or self.n + self.m > _DENSE:
            return solve_symmetric(product, self.kkt.direct(M, B, B), f, -Z)
        library = self.kkt.over(library_solver(self.n, self.m))
        solve = lambda r, s: lapack_or(library.solution, self.kkt.solution, (f, Z), M, B, B, r, s)  # noqa: E731
        return solve_symmetric(product, solve, f, -Z)

    def inverse_mass(self, t: Array, q: Point) -> Callable[[Vector], Vector] | None:
        """The function M⁻¹ of a vector, where it takes less than a factorisation of M; otherwise None."""
        del t, q
        return None

    def momentum(self, t: Array, q: Point, v: Vector) -> Vector:
        """M v."""
        return apply(self.mass(t, q), v, self.n)

    def balance(self, t: Array, q: Point, v: Vector, acceleration: Vector) -> Vector:
        """M a - f, shape (n,)."""
        return self.momentum(t, q, acceleration) - self.force(t, q, v)

    @property
    def state_space(self) -> AbstractSpace:
        # Velocities are measured in the same geometric parts as increments of the configuration.
        parts = self.configuration.blocks
        return product(self.configuration, Rn(self.n, parts if sum(parts) == self.n else None))

    def velocity(self, t: Array, state: State) -> Vector:
        q, v = state
        return jnp.concatenate((self.kinematics(q, v), self.accelerations(t, q, v)[0]))

    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        q, v = state
        norms = {"manifold": self.configuration.residual(q)}
        if self.m:
            norms["position"] = jnp.max(jnp.abs(self.constraint(t, q)))
            norms["velocity"] = jnp.max(jnp.abs(self.constraint_rate(t, q, v)))
        return norms

    def check(self, t: float, state: State) -> None:
        """Raises ValueError if the constraints or their rates are violated by more than `START_TOLERANCE`.

        Not checked inside JAX transformations.
        """
        if self.m == 0 or inside_transformation():
            return
        problems = []
        for what, values, part in zip(("positions", "velocities"), self.violations(t, state), state, strict=True):
            largest = max([1.0, *(float(np.max(np.abs(x), initial=0.0)) for x in jax.tree.leaves(part))])
            if not np.max(np.abs(values)) <= START_TOLERANCE * largest:
                problems.append(f"on {what} at t = {t:g}: {self.name_violations(values)}")
        if problems:
            raise ValueError(f"`state0` violates the constraints {', and those '.join(problems)}. {self.start_remedy}")

    def violations(self, t: float, state: State) -> tuple[np.ndarray, np.ndarray]:
        """Φ and dΦ/dt as numbers, each of shape (m,); compiled once for a system."""
        gaps, rates = _violations(self, jnp.asarray(t), *state)
        return np.asarray(gaps), np.asarray(rates)

    def name_violations(self, values: np.ndarray) -> str:
        """Describes the constraints that are violated most."""
        worst = int(np.argmax(np.where(np.isfinite(values), np.abs(values), np.inf)))
        return f"number {worst} of {self.m} by {abs(values[worst]):.3g}"

    @property
    def start_remedy(self) -> str:
        """The remedy for a start that violates the constraints."""
        return "Solve Φ = 0 for positions, then take from v its part M⁻¹Bᵀ(BM⁻¹Bᵀ)⁻¹(Bv + ∂Φ/∂t) across them."

    def conversions(self) -> tuple[AbstractConversion, ...]:
        """The vector field on configuration × velocities."""
        return (ToVectorField(self, _DRIFT if self.m else ""),)


@numpy_jit
def _violations(system: AbstractMechanical, t: Array, q: Point, v: Vector) -> tuple[Multipliers, Multipliers]:
    return system.constraint(t, q), system.constraint_rate(t, q, v)


def _derivative(curve: Callable[[Array], Array]) -> Array:
    zero = jnp.zeros(())
    return jax.jvp(curve, (zero,), (jnp.ones(()),))[1]
