"""Methods on Hamilton's equations of a rigid body in quaternions, for comparison with those on Livens' principle."""

from __future__ import annotations

from typing import Any, ClassVar, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.checks import short_repr
from polhode.integrators.base import AbstractSymmetricSecondOrder, Carry, StepInfo
from polhode.integrators.energy_momentum import curve
from polhode.integrators.implicit._equations import AbstractEquations, Residual
from polhode.integrators.implicit._newton import Newton, solve
from polhode.linalg.blocks import dense_block
from polhode.linalg.dense import lu_factor, lu_solve
from polhode.linalg.solver_choice import fused_solver
from polhode.spaces import quaternions
from polhode.systems.lagrangian import LivensState
from polhode.systems.quaternion_body import G, G_transposed, Quaternion, QuaternionBody

_FLOOR = 1e-15


class _Place(NamedTuple):
    q1: Quaternion
    p1: Quaternion


class _Equations(AbstractEquations):
    """Δq = h ∂H/∂p, Δp = -h(∂H/∂q + λ q̄), |q₁| = 1 for the unknowns (q₁, p₁, λ)."""

    system: QuaternionBody
    h: Array
    start: LivensState
    discrete: bool = eqx.field(static=True)

    def place(self, x: Float[Array, "9"]) -> _Place:
        return _Place(x[:4], x[4:8])

    def _parts(self, place: _Place, multiplier: Array) -> tuple[Array, ...]:
        (q0, _, p0), (q1, p1), h = self.start, place, self.h
        q, p = 0.5 * (q0 + q1), 0.5 * (p0 + p1)
        w = 0.5 * (conjugate_product(q0, p0) + conjugate_product(q1, p1)) if self.discrete else conjugate_product(q, p)
        y = velocity(self.system.inertia, w)
        V = jnp.zeros(4)
        if self.system.potential is not None:
            average = self.system.gradient if self.discrete else lambda f, a, b: jax.grad(f)(0.5 * (a + b))
            V = average(self.system.potential, q0, q1)
        # ∂H/∂p = ¼ Q_l(q) y and ∂H/∂q = ¼ [p | -G(p)ᵀ] y.
        kinematic = q1 - q0 - 0.25 * h * (q * y[0] + G_transposed(q, y[1:]))
        dynamic = p1 - p0 + 0.25 * h * (p * y[0] - G_transposed(p, y[1:])) + h * V + h * multiplier * q
        return kinematic, dynamic, 0.5 * (q1 @ q1 - 1)[None]

    def residual(self, place: _Place, x: Float[Array, "9"]) -> Residual:
        few = jnp.asarray(1 / 32)
        sizes = few, few * (_size(self.start.p) + _size(place.p1)), few
        return Residual(self._parts(place, x[8]), sizes, sizes)

    def factor(self, place: _Place, x: Float[Array, "9"]) -> Any:
        matrix = jax.jacfwd(lambda y: jnp.concatenate(self._parts(self.place(y), y[8])))(x)
        blocks = matrix[:8, :8], matrix[:8, 8:].T, matrix[8:, :8]
        return fused_solver(8, 1).factor(dense_block(blocks[0]), dense_block(blocks[1]), dense_block(blocks[2]))

    def correct(self, factors: Any, parts: tuple[Array, ...]) -> Float[Array, "9"]:
        return jnp.concatenate(fused_solver(8, 1).solve(factors, -jnp.concatenate(parts[:2]), -parts[2]))

    def negligible(self, place: _Place, correction: Float[Array, "9"]) -> Array:
        return jnp.max(jnp.abs(correction[:4])) <= 8 * jnp.finfo(float).eps


class HamiltonianQuaternions(AbstractSymmetricSecondOrder):
    r"""Energy–momentum (EMH) or midpoint rule (MPH) on Hamilton's equations of a body in quaternions.

    The mass matrix is made regular by 2 tr(J) q qᵀ, which unit quaternions don't notice:
    $H = \tfrac18 w\cdot J_e^{-1}w + V,\ w = \bar q^*\circ p,\ J_e = \mathrm{diag}(\tfrac12\mathrm{tr}J, J)$. This is
    the Hamiltonian of unit quaternions, a polynomial; with 1/|q|⁴, the inverse mass matrix off the sphere, the midpoint
    rule would give the positions of `LivensMidpoint`.

    - Order: 2 for q and p.
    - Preserves: |q| = 1 and the angular momentum of a free body, about the vertical for a quadratic potential;
      `discrete=True` (EMH) also the energy and q·p = 0, to round-off.
    - Interpolation: linear in v and p, quadratic in q.
    - Result codes: `newton_not_converged`, `singular_constraints`, `nonfinite_state`.

    **Arguments:**

    - `discrete`: through the invariants w (EMH), or at the midpoint (MPH).
    - `max_iterations`: of Newton's method in a step.

    ??? cite "Reference"
        P. Betsch, R. Siebert, Rigid body dynamics in terms of quaternions: Hamiltonian formulation and conserving
        numerical integration, Int. J. Numer. Meth. Eng. 79 (2009).
    """

    kinds: ClassVar = (QuaternionBody,)
    promises_at_steps: ClassVar = True

    discrete: bool = eqx.field(static=True, default=True)
    max_iterations: int = eqx.field(static=True, default=40)

    def __check_init__(self) -> None:
        if not isinstance(self.discrete, bool):
            raise ValueError(f"`discrete` must be True or False, got {short_repr(self.discrete)}.")
        _ = self._solver

    @property
    def promises(self) -> dict[str, str]:
        """See `AbstractIntegrator`."""
        return {"position": "round-off", **({"energy": "round-off"} if self.discrete else {})}

    def promises_for(self, system: QuaternionBody, state: LivensState) -> dict[str, str]:
        return {**super().promises_for(system, state), **dict.fromkeys(system.kept_momenta, "round-off")}

    @property
    def implicit(self) -> bool:
        return True

    @property
    def interpolation_order(self) -> int:
        return 2

    @property
    def _solver(self) -> Newton:
        return Newton("full", _FLOOR, _FLOOR, self.max_iterations)

    def init(self, system: QuaternionBody, t: Array, h: Array, state: LivensState) -> Carry:
        return Carry(LivensState(*state), None, jnp.zeros(1))

    def step(self, system: QuaternionBody, t: Array, h: Array, carry: Carry) -> tuple[Carry, StepInfo]:
        q0, v0, p0 = carry.state
        # At steps that turn far only the rotated state is near enough.
        turn = quaternions.from_increment(h * system.angular_velocity(q0, v0))
        guess = jnp.concatenate((quaternions.multiply(q0, turn), quaternions.multiply(p0, turn), jnp.zeros(1)))
        solution = solve(_Equations(system, h, carry.state, self.discrete), guess, None, self._solver)
        q1, p1 = solution.place
        y = velocity(system.inertia, conjugate_product(q1, p1))
        state = LivensState(q1, 0.25 * (q1 * y[0] + G_transposed(q1, y[1:])), p1)
        info = StepInfo(result=solution.result, newton_iterations=solution.iterations, residual=solution.residual)
        return Carry(state, None, solution.x[8:]), info

    def interpolate(
        self, system: QuaternionBody, t: Array, h: Array, carry0: Carry, carry1: Carry, s: Array
    ) -> LivensState:
        return curve(carry0.state, carry1.state, h, s)


def _size(x: Array) -> Float[Array, ""]:
    return jnp.sqrt(jnp.sum(x * x))


def velocity(inertia: Float[Array, "..."], w: Quaternion) -> Quaternion:
    """J_e⁻¹w with J_e = diag(½ tr J, J)."""
    if inertia.ndim == 1:
        return w / jnp.concatenate((0.5 * jnp.sum(inertia)[None], inertia))
    half = 0.5 * jnp.trace(inertia)
    return jnp.concatenate(((w[0] / half)[None], lu_solve(lu_factor(inertia), w[1:])))


def conjugate_product(q: Quaternion, p: Quaternion) -> Quaternion:
    """w = q* ∘ p."""
    return jnp.concatenate(((q @ p)[None], G(q, p)))
