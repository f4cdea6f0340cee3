"""Lyapunov exponents."""

from __future__ import annotations

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float

from polhode import checks, summary
from polhode.analysis.linear.linearise import directions
from polhode.compiler.placement import with_default_device
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import check_environment
from polhode.problem import Problem
from polhode.simulation.simulate import simulate

_FRAMES, _PARTS = 256, 8
EXPONENTIAL = 3.0
"""Growth by e³ within three quarters of the span: what grows only in proportion to time reaches 4."""


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Lyapunov:
    r"""The growth of a small deviation along a motion.

    - `exponent`: its rate, an estimate of the largest Lyapunov exponent, in 1/time. - `deviation`: standard deviation
      of that estimate, from the scatter between parts of the motion.
    - `t` (n,), `growth` (n,): the logarithm of how many times larger the deviation is at these times than at the start.
    """

    exponent: float
    deviation: float
    t: Float[np.ndarray, " n"]
    growth: Float[np.ndarray, " n"]

    @property
    def chaotic(self) -> bool:
        """Whether it has grown exponentially, as far as this motion shows."""
        window = self.t[-1] - self.t[len(self.t) // 4]
        return self.exponent * window > EXPONENTIAL and self.exponent > 3 * self.deviation

    @property
    def time(self) -> float:
        """The Lyapunov time 1 / `exponent`; infinite if growth is not exponential."""
        return 1 / self.exponent if self.chaotic else float("inf")

    def __repr__(self) -> str:
        text = f"Lyapunov time {self.time:.3g}" if self.chaotic else "no exponential growth seen"
        return f"Lyapunov(exponent {self.exponent:.4g} ± {self.deviation:.2g}, {text})"

    def _repr_html_(self) -> str:
        rows = [("exponent", f"{self.exponent:.4g} ± {self.deviation:.2g}"), ("Lyapunov time", f"{self.time:.4g}")]
        return summary.html("Lyapunov exponent", rows)


@with_default_device
def lyapunov(
    problem: Problem,
    integrator: AbstractIntegrator | str | None = None,
    *,
    h: float | None = None,
    t1: float | None = None,
) -> Lyapunov:
    r"""The largest Lyapunov exponent of a motion, from the derivative of one run.

    A deviation in a general direction that keeps all constraints is carried along by the derivative of the discrete
    motion, in which it is linear, so that it needs no rescaling. The exponent is the mean rate of its logarithm after
    the first quarter of the span, in which the direction settles. It is that of this motion over this time; estimates
    settle over some ten Lyapunov times.

    **Arguments:**

    - `integrator`, `h`, `t1`: as for `polhode.simulate`, with a constant step.

    **Raises** ValueError for bad input; `SimulationError` if the run fails.

    ??? cite "Reference"
        G. Benettin, L. Galgani, A. Giorgilli, J.-M. Strelcyn, Lyapunov characteristic exponents for smooth dynamical
        systems and for Hamiltonian systems, Meccanica 15 (1980) 9–30.
    """
    check_environment()
    if not isinstance(problem, Problem):
        raise checks.not_a_problem(problem, "a Problem")
    start = problem.t_span[0]
    end = checks.number("t1", problem.t_span[1] if t1 is None else t1, "end of the run")
    if not end > start:
        raise ValueError(f"`t1` must lie after the start at t = {start:g}, got {end:g}.")
    at = np.linspace(start, end, _FRAMES + 1)[1:]
    space, state0, first = problem.system.state_space, problem.state0, generic_deviation(problem)

    def motion(s: Array) -> object:
        neighbour = space.move(state0, s * jnp.asarray(first))
        return simulate(problem, integrator, h=h, t1=end, state0=neighbour, save_at=at).state

    _, tangent = jax.jvp(motion, (0.0,), (1.0,))
    return _estimate(at, _log_size(tangent, len(at)) - np.log(np.linalg.norm(first)))


def generic_deviation(problem: Problem) -> Float[np.ndarray, " dim"]:
    """A deviation of the start in a general direction that keeps all constraints, in the algebra of states."""
    basis = directions(problem.system, problem.t_span[0], problem.state0)
    # Equal components could be special, such as a symmetric mode.
    return basis @ np.cos(1.0 + np.arange(basis.shape[1], dtype=float) ** 2)


def _log_size(tangent: object, count: int) -> np.ndarray:
    """The logarithm of the norm at each time, as far as numbers go."""
    leaves = [np.asarray(x).reshape(count, -1) for x in jax.tree.leaves(tangent) if np.asarray(x).dtype == float]
    whole = np.concatenate(leaves, axis=1)
    largest = np.abs(whole).max(axis=1)
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        return np.log(largest) + np.log(np.linalg.norm(whole / largest[:, None], axis=1))


def _estimate(t: np.ndarray, growth: np.ndarray) -> Lyapunov:
    # Beyond a growth of e⁷⁰⁰ numbers overflow.
    count = int(np.argmin(np.isfinite(growth))) if not np.isfinite(growth).all() else len(growth)
    t, growth = t[:count], growth[:count]
    ends = np.linspace(len(t) // 4, len(t) - 1, _PARTS + 1).astype(int)
    rates = np.diff(growth[ends]) / np.diff(t[ends])
    exponent = (growth[ends[-1]] - growth[ends[0]]) / (t[ends[-1]] - t[ends[0]])
    return Lyapunov(float(exponent), float(rates.std(ddof=1) / np.sqrt(_PARTS)), t, growth)
