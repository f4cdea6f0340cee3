"""The Störmer–Verlet method, and RATTLE, its form for holonomic constraints."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Bool, Float

from polhode.compiler.numpy_jit import numpy_jit
from polhode.compiler.primitives.backend_query import no_lapack
from polhode.integrators.base import AbstractIntegrator, AbstractSymmetricSecondOrder, Carry, StepInfo
from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.integrators.implicit._newton import Newton, solve
from polhode.integrators.nonsmooth.lie_rattle import LieRattle
from polhode.jax_context import inside_transformation
from polhode.linalg.blocks import dense_block
from polhode.linalg.solver_choice import kkt_solver
from polhode.spaces.base import norm
from polhode.systems.base import AbstractSystem
from polhode.systems.lagrangian import AbstractLagrangian, Coordinates, LivensState, Multipliers

_FLOOR = 1e-14
"""Newton's method iterates to round-off: remaining residuals would make conserved quantities drift."""

_REGULAR = 1e-12
"""Smallest eigenvalue of a mass matrix with ones on its diagonal, over the largest, that counts as nonzero."""

_CONSTANT = 1e-9
"""Largest relative change of a mass matrix between two places that is taken for round-off."""


class _Surface(NamedTuple):
    """The constraints at one place: B, W = M⁻¹Bᵀ, and factors of BW, which is regular if they are independent."""

    constraint: Float[Array, "m n"]
    reaction: Float[Array, "n m"]
    factors: Any


class _Memory(NamedTuple):
    """Factors of the mass matrix; ∂V/∂q and the constraints, or None, at the present place."""

    mass: Any
    slope: Coordinates
    surface: _Surface | None


class _Kick(NamedTuple):
    """Result of the first half of a step: q₁, B there, and the velocity in the middle."""

    q: Coordinates
    v: Coordinates
    constraint: Float[Array, "m n"]


class _Equations(AbstractEquations):
    """g(q₁(λ)) = 0 with v½ = v̂ - h/2 W₀λ and q₁ = q₀ + h v½; W₀ = M⁻¹B(q₀)ᵀ."""

    system: AbstractLagrangian
    h: Array
    start: Coordinates
    velocity: Coordinates
    reaction: Float[Array, "n m"]

    def place(self, x: Multipliers) -> _Kick:
        v = self.velocity - 0.5 * self.h * (self.reaction @ x)
        q = self.start + self.h * v
        return _Kick(q, v, jax.jacfwd(self.system.constraint)(q))

    def residual(self, place: _Kick, x: Multipliers) -> Residual:
        # What cancels in each constraint.
        size = norm(jnp.abs(place.constraint) @ jnp.abs(place.q))
        return Residual((self.system.constraint(place.q),), (size,), (size,))

    def factor(self, place: _Kick, x: Multipliers) -> Any:
        return _factor(-0.5 * self.h**2 * (place.constraint @ self.reaction))

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> Multipliers:
        return _solve(factors, -parts[0])

    def negligible(self, place: _Kick, correction: Multipliers) -> Array:
        change = 0.5 * self.h**2 * (self.reaction @ correction)
        return norm(change) <= 8 * jnp.finfo(float).eps * norm(place.q)


class AbstractVerlet(AbstractSymmetricSecondOrder):
    """Shared parts of Störmer–Verlet and RATTLE; without constraints they are the same."""

    kinds: ClassVar = (AbstractLagrangian,)
    promises_at_steps: ClassVar = True
    name: ClassVar[str]
    constrained: ClassVar[bool]

    @property
    def interpolation_order(self) -> int:
        return 2

    def check(self, system: AbstractLagrangian, t: Any, state: LivensState) -> None:
        """Refuses constraints that the method doesn't take, and mass matrices that are singular or change with q.

        Masses inside JAX transformations have no values to check; `init` refuses them when the program runs. Raises
        ValueError.
        """
        del t
        if system.m and not self.constrained:
            raise ValueError(
                f"`{self.name}` takes systems without constraints, and this {system.kind_name} has {system.m}. "
                "`rattle` is the same method with constraints, for constant and regular mass matrices."
            )
        if not inside_transformation():
            q, *_ = state
            for wrong, message in zip(_mass_faults(system, q), self._refusals(system), strict=True):
                if wrong:
                    raise ValueError(message)

    def init(self, system: AbstractLagrangian, t: Array, h: Array, state: LivensState) -> Carry:
        self.check(system, t, state)
        q, v, p = state
        if inside_transformation():
            # Machine code belongs to a run that has started, with values that were checked.
            q = jax.lax.cond(no_lapack(), lambda q: q, lambda q: self._refuse_mass(system, q), q)
        mass = _factor(_mass(system, q))
        surface = _surface(jax.jacfwd(system.constraint)(q), mass) if system.m else None
        memory = _Memory(mass, jax.grad(system.potential_energy)(q), surface)
        state = LivensState(q, v, p)
        return Carry(state, memory, _multipliers(system, t, state, memory))

    def _refuse_mass(self, system: AbstractLagrangian, q: Coordinates) -> Coordinates:
        """q, or an error when the program runs."""
        for wrong, message in zip(_mass_faults(system, q), self._refusals(system), strict=True):
            q = eqx.error_if(q, wrong, message)
        return q

    def interpolate(
        self, system: AbstractLagrangian, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> LivensState:
        (q0, v0, _), (q1, v1, _) = carry0.state, carry1.state
        a0, a1 = _acceleration(system, t, carry0), _acceleration(system, t + h, carry1)
        q, v = _hermite(h, q0, q1, v0, v1, s), _hermite(h, v0, v1, a0, a1, s)
        return LivensState(q, v, system.momenta(q, v))

    def _refusals(self, system: AbstractLagrangian) -> tuple[str, str]:
        mass = f"The mass matrix of this {system.kind_name}, ∂²T/∂v²,"
        advice = f"`{self.name}` needs it constant and regular. Use `eml` or `mpl`, which take any."
        return f"{mass} is singular or indefinite; {advice}", f"{mass} changes with q; {advice}"


class StormerVerlet(AbstractVerlet):
    r"""The Störmer–Verlet method (leapfrog) for Lagrangian systems with a constant mass matrix, without constraints.

    $$v_{1/2} = v_0 + \tfrac h2 M^{-1}F(t_0, q_0),\quad q_1 = q_0 + h v_{1/2},\quad
    v_1 = v_{1/2} + \tfrac h2 M^{-1}F(t_1, q_1)$$

    with $F = f - \partial V/\partial q$.

    - Order: 2; symmetric. Compose it for orders 4 and 6 (`polhode.integrators.SymmetricComposition`).
    - Preserves: the symplectic form, and linear and angular momentum where V is invariant, to round-off; the energy
      without drift, at steps that resolve the motion.
    - Explicit: one evaluation of the force a step. Steps are constant, h ω < 2 for the largest frequency ω.
    - Loads f(t, q, v) are evaluated at the ends of the step, at its end with the velocity 2v½ - v₀. If they depend on
      velocities the order is still 2, but symmetry holds up to O(h³) a step, and damping bounds the step.
    - Interpolation: cubic Hermite in q and in v; errors O(h³).
    - Result codes: `nonfinite_state`.

    **Raises** ValueError for constraints (use `rattle`). Mass matrices that are singular or change with q are refused
    when the run starts (use `eml` or `mpl`).

    ??? cite "Reference"
        E. Hairer, C. Lubich, G. Wanner, Geometric Numerical Integration (2006), sections I.1.4 and VI.3.
    """

    promises: ClassVar = {"energy": "bounded"}
    name: ClassVar[str] = "stormer-verlet"
    constrained: ClassVar[bool] = False

    def step(self, system: AbstractLagrangian, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        state: LivensState = carry.state
        v = _first_kick(system, t, h, state, carry.memory)
        q = state.q + h * v
        memory = carry.memory._replace(slope=jax.grad(system.potential_energy)(q))
        end = _second_kick(system, t + h, h, state, q, v, memory)
        return Carry(LivensState(q, end, system.momenta(q, end)), memory), StepInfo()


class Rattle(AbstractVerlet):
    r"""RATTLE: the Störmer–Verlet method with holonomic constraints g(q) = 0, for a constant mass matrix.

    $$v_{1/2} = v_0 + \tfrac h2 M^{-1}(F(t_0, q_0) - B_0^T\lambda),\quad q_1 = q_0 + h v_{1/2},\quad g(q_1) = 0,$$

    $$v_1 = v_{1/2} + \tfrac h2 M^{-1}(F(t_1, q_1) - B_1^T\mu),\quad B_1 v_1 = 0,\quad
    F = f - \partial V/\partial q,\ B = \partial g/\partial q.$$

    - Order: 2 for q, v and p; symmetric. Compose it for orders 4 and 6 (`polhode.integrators.SymmetricComposition`).
    - Multipliers of a run are those of the equations of motion at (q₁, v₁), not λ or μ, which are of order 1 and, at
      small steps, full of round-off. So they are of order 2 and belong to the same instants as the state.
    - Preserves: constraints and their rates B v = 0 to round-off; the symplectic form on the constrained phase space;
      linear and angular momentum where V and g are invariant, to round-off; the energy without drift, at steps that
      resolve the motion.
    - One evaluation of the force a step; m equations for λ by Newton's method, which goes on to round-off, and m linear
      ones for μ. M is factorised once. Steps are constant, h ω < 2 for the largest frequency ω.
    - Loads f(t, q, v) are evaluated at the ends of the step, at its end with the velocity 2v½ - v₀. If they depend on
      velocities the order is still 2, but symmetry holds up to O(h³) a step, and damping bounds the step.
    - Interpolation: cubic Hermite in q and in v; errors O(h³), those of the constraints O(h⁴).
    - Result codes: `newton_not_converged`, `singular_constraints`, `nonfinite_state`.

    Mass matrices that are singular or change with q are refused when the run starts (use `eml` or `mpl`).

    **Arguments:**

    - `max_iterations`: of Newton's method in a step.

    ??? cite "Reference"
        H. C. Andersen, Rattle: a "velocity" version of the Shake algorithm, J. Comput. Phys. 52 (1983); B. Leimkuhler,
        R. D. Skeel, Symplectic numerical integrators in constrained Hamiltonian systems, J. Comput. Phys. 112 (1994);
        E. Hairer, C. Lubich, G. Wanner, Geometric Numerical Integration (2006), section VII.1.4.
    """

    promises: ClassVar = {"position": "round-off", "velocity": "round-off", "energy": "bounded"}
    name: ClassVar[str] = "rattle"
    constrained: ClassVar[bool] = True

    max_iterations: int = eqx.field(static=True, default=60)

    def __check_init__(self) -> None:
        _ = self._solver

    def for_system(self, system: AbstractSystem) -> AbstractIntegrator:
        """The method on Lie groups where bodies touch."""
        return LieRattle(max_iterations=self.max_iterations) if system.has_contacts else self

    @property
    def _solver(self) -> Newton:
        return Newton("full", _FLOOR, _FLOOR, self.max_iterations)

    def step(self, system: AbstractLagrangian, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        state: LivensState = carry.state
        v = _first_kick(system, t, h, state, carry.memory)
        kick, info = self._constrained_drift(system, h, state.q, v, carry)
        mass = carry.memory.mass
        surface = _surface(kick.constraint, mass) if system.m else None
        memory = _Memory(mass, jax.grad(system.potential_energy)(kick.q), surface)
        v = _second_kick(system, t + h, h, state, kick.q, kick.v, memory)
        if surface is not None:
            v = v - surface.reaction @ _solve(surface.factors, surface.constraint @ v)
        end = LivensState(kick.q, v, system.momenta(kick.q, v))
        return Carry(end, memory, _multipliers(system, t + h, end, memory)), info

    def _constrained_drift(
        self, system: AbstractLagrangian, h: Array, q: Coordinates, v: Coordinates, carry: Carry
    ) -> tuple[_Kick, StepInfo]:
        """The place reached with v and the constraint force at q."""
        if system.m == 0:
            return _Kick(q + h * v, v, jnp.zeros((0, system.n))), StepInfo()
        # Redundant constraints have no multipliers at the start; Newton's method reports that.
        guess = jax.tree.map(lambda x: jnp.where(jnp.isfinite(x), x, 0.0), carry.multipliers)
        solution = solve(_Equations(system, h, q, v, carry.memory.surface.reaction), guess, None, self._solver)
        info = StepInfo(result=solution.result, newton_iterations=solution.iterations, residual=solution.residual)
        return solution.place, info


def _first_kick(system: AbstractLagrangian, t: Array, h: Array, state: LivensState, memory: _Memory) -> Coordinates:
    """v½ without constraint force."""
    return state.v + 0.5 * h * _solve(memory.mass, _force(system, t, state, memory))


def _second_kick(
    system: AbstractLagrangian,
    t: Array,
    h: Array,
    start: LivensState,
    q: Coordinates,
    v: Coordinates,
    memory: _Memory,
) -> Coordinates:
    """v₁ without constraint force, from q₁ and v½. Loads see 2v½ - v₀, which is v₁ up to O(h²)."""
    there = LivensState(q, 2 * v - start.v, start.p)
    return v + 0.5 * h * _solve(memory.mass, _force(system, t, there, memory))


def _surface(constraint: Float[Array, "m n"], mass: Any) -> _Surface:
    reaction = jax.vmap(lambda row: _solve(mass, row), out_axes=1)(constraint)
    return _Surface(constraint, reaction, _factor(constraint @ reaction))


def _force(system: AbstractLagrangian, t: Array, state: LivensState, memory: _Memory) -> Coordinates:
    """f - ∂V/∂q."""
    return -memory.slope if system.conservative else system.load(t, state.q, state.v) - memory.slope


def _multipliers(system: AbstractLagrangian, t: Array, state: LivensState, memory: _Memory) -> Multipliers | None:
    """λ of the equations of motion: B M⁻¹(f - ∂V/∂q - Bᵀλ) + (∂B/∂q v) v = 0."""
    if memory.surface is None:
        return None

    def rate(q: Coordinates) -> Multipliers:
        return jax.jvp(system.constraint, (q,), (state.v,))[1]

    curvature = jax.jvp(rate, (state.q,), (state.v,))[1]
    force = _force(system, t, state, memory)
    return _solve(memory.surface.factors, force @ memory.surface.reaction + curvature)


def _acceleration(system: AbstractLagrangian, t: Array, carry: Carry) -> Coordinates:
    a = _solve(carry.memory.mass, _force(system, t, carry.state, carry.memory))
    return a if carry.multipliers is None else a - carry.memory.surface.reaction @ carry.multipliers


def _hermite(h: Array, x0: Array, x1: Array, rate0: Array, rate1: Array, s: Array) -> Array:
    """The cubic with values and rates of change at the ends of the step."""
    return x0 + s * ((1 - s) ** 2 * h * rate0 + s * (s - 1) * h * rate1 + s * (3 - 2 * s) * (x1 - x0))


def _mass(system: AbstractLagrangian, q: Coordinates) -> Float[Array, "n n"]:
    zero = jnp.zeros(system.n)
    return jax.jacfwd(lambda v: system.momenta(q, v))(zero)


@numpy_jit
def _mass_faults(system: AbstractLagrangian, q: Coordinates) -> tuple[Bool[Array, ""], Bool[Array, ""]]:
    """Whether M is singular, and whether it changes with q."""
    beside = q + jnp.asarray(np.random.default_rng(0).standard_normal(system.n)) * jnp.maximum(1.0, jnp.max(jnp.abs(q)))
    here, there = jax.lax.stop_gradient((_mass(system, q), _mass(system, beside)))
    size = jnp.max(jnp.abs(here))
    # Negated, so that masses that can't be evaluated are refused too.
    changes = ~(jnp.max(jnp.abs(here - there)) <= _CONSTANT * size)
    # Coordinates of different dimension, lengths and angles say, have masses of different dimension.
    units = jnp.sqrt(jnp.abs(jnp.diagonal(here)))
    unit_mass = here / (units[:, None] * units)
    sizes = jnp.linalg.eigvalsh(jnp.where(jnp.isfinite(unit_mass), unit_mass, 0.0))
    return ~(jnp.min(sizes) > _REGULAR * jnp.max(sizes)), changes


def _factor(matrix: Float[Array, "k k"]) -> Any:
    return kkt_solver((), (), len(matrix), 0).factor(dense_block(matrix), (), ())


def _solve(factors: Any, b: Float[Array, " k"]) -> Float[Array, " k"]:
    return kkt_solver((), (), len(b), 0).solve(factors, b, jnp.zeros(0))[0]
