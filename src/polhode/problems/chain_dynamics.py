"""Angular accelerations of a chain of point masses on massless rods, in a time that grows linearly with its length."""

from __future__ import annotations

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.spaces.base import cross

Vectors = Float[Array, "n 3"]
Scalars = Float[Array, " n"]

# Up to this length the elimination is written out and becomes part of the compiled step; beyond, it is a loop.
MAX_UNROLLED = 6


class ChainDynamics(eqx.Module):
    r"""The N-fold spherical pendulum on (TS²)^N: rod directions $q_i$ and their angular velocities $ω_i ⊥ q_i$.

    The accelerations follow from the rod tensions $T_i$. With $a_i$ the acceleration of mass i,
    $m_i a_i = -m_i g e_3 - T_i q_i + T_{i+1} q_{i+1}$, rods of constant length ask
    $q_i·(a_i - a_{i-1}) = -L_i|ω_i|²$: a symmetric positive definite tridiagonal system for T, solved in
    O(N). Then $\dot ω_i = q_i × (a_i - a_{i-1})/L_i$. This equals the solution of the dense system
    $R(q)\dot ω = r$ of the literature.

    - `masses`, `lengths`: shape (n,); `gravity`: acceleration towards -e₃.

    ??? cite "Reference"
        E. Celledoni, E. Çokaj, A. Leone, D. Murari, B. Owren, *Lie group integrators for mechanical systems*
        (2022), §5.2 for the equations and the action; the tension form is the constrained Cartesian one.
    """

    masses: Scalars
    lengths: Scalars
    gravity: Float[Array, ""]

    def __call__(self, t: Array, state: tuple[Vectors, Vectors]) -> Float[Array, " 6*n"]:
        """Algebra element (ω_i, q_i × ω̇_i), i = 1…n, of the action of SE(3)^n."""
        del t
        q, omega = state
        acceleration = self.angular_acceleration(q, omega)
        return jnp.concatenate((omega, jax.vmap(cross)(q, acceleration)), axis=1).reshape(-1)

    def angular_acceleration(self, q: Vectors, omega: Vectors) -> Vectors:
        """ω̇, shape (n, 3); tangential, ω̇_i·q_i = 0."""
        tension = self.tensions(q, omega)
        lighter = 1 / self.masses
        # Rod i pulls the masses at both of its ends; its own pull is along q_i and turns nothing.
        pull = tension[:, None] * q
        none = jnp.zeros((1, 3))
        # The first mass is measured from the fixed point, which unlike all others does not fall.
        above = jnp.concatenate((self._weight[None], pull[:-1] * lighter[:-1, None]))
        below = jnp.concatenate((pull[1:] * lighter[:-1, None], none))
        return 1 / self.lengths[:, None] * jax.vmap(cross)(q, above + below)

    def tensions(self, q: Vectors, omega: Vectors) -> Scalars:
        """Rod tensions T, shape (n,); positive where a rod pulls."""
        lighter = 1 / self.masses
        diagonal = lighter + jnp.concatenate((jnp.zeros(1), lighter[:-1]))
        beside = -lighter[:-1] * jnp.sum(q[:-1] * q[1:], axis=1)
        gravity_term = jnp.concatenate(((self._weight @ q[0])[None], jnp.zeros(len(q) - 1)))
        return solve_tridiagonal(diagonal, beside, self.lengths * jnp.sum(omega * omega, axis=1) + gravity_term)

    @property
    def _weight(self) -> Float[Array, "3"]:
        return jnp.stack((jnp.zeros(()), jnp.zeros(()), -self.gravity))


def solve_tridiagonal(diagonal: Scalars, beside: Float[Array, " n-1"], right: Scalars) -> Scalars:
    """Solution of a symmetric positive definite tridiagonal system in O(n).

    Elimination without pivoting (Thomas), stable because the matrix is positive definite.
    """
    if len(diagonal) <= MAX_UNROLLED:
        return _solve_unrolled(diagonal, beside, right)

    def down(
        above: tuple[Array, Array], row: tuple[Array, Array, Array]
    ) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
        result = _eliminate(*above, *row)
        return result, result

    def up(below: Array, row: tuple[Array, Array, Array]) -> tuple[Array, Array]:
        pivot, value, next_to = row
        result = pivot * (value - next_to * below)
        return result, result

    first = 1 / diagonal[0], right[0]
    _, (pivots, values) = jax.lax.scan(down, first, (diagonal[1:], beside, right[1:]))
    pivots, values = (jnp.concatenate((x[None], rest)) for x, rest in zip(first, (pivots, values), strict=True))
    last = pivots[-1] * values[-1]
    _, rest = jax.lax.scan(up, last, (pivots[:-1], values[:-1], beside), reverse=True)
    return jnp.concatenate((rest, last[None]))


def _solve_unrolled(diagonal: Scalars, beside: Array, right: Scalars) -> Scalars:
    rows = [(1 / diagonal[0], right[0])]
    for i in range(1, len(diagonal)):
        rows.append(_eliminate(*rows[-1], diagonal[i], beside[i - 1], right[i]))
    solution = [rows[-1][0] * rows[-1][1]]
    for i in reversed(range(len(diagonal) - 1)):
        pivot, value = rows[i]
        solution.append(pivot * (value - beside[i] * solution[-1]))
    return jnp.stack(solution[::-1])


def _eliminate(pivot: Array, value: Array, diagonal: Array, beside: Array, right: Array) -> tuple[Array, Array]:
    """The reciprocal pivot and the right-hand side of a row, from those of the row above."""
    factor = beside * pivot
    return 1 / (diagonal - factor * beside), right - factor * value
