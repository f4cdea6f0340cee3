"""Half-explicit steps of order 5 on rods with their error estimates: constant steps, and the paper's control."""

from __future__ import annotations

import functools
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

import polhode as ph
from polhode.compiler.cache.program_cache import xla_jit
from polhode.integrators.base import AbstractIntegrator
from polhode.systems.mechanical import AbstractMechanical

_MOST_STEPS = 6000

EDGES = {"roll-up": 8, "flying-spaghetti": 16}


@functools.cache
def rod(name: str, **parameters: float) -> ph.Problem:
    """A problem with the paper's data; one object for all experiments, whose runs share compiled programs."""
    return ph.problems.get(name, **parameters)


class Rule(NamedTuple):
    """Step size control by equations (21) and (22): tolerances, factors and the first step."""

    atol: Any
    rtol: Any
    safety: Any
    min_factor: Any
    max_factor: Any
    first_step: Any


def constant(h: float) -> Rule:
    """Every step is accepted and as large as the one before."""
    return Rule(np.inf, 0.0, 1.0, 1.0, 1.0, h)


def error_control(safety: float = 0.8, min_factor: float = 0.2) -> Rule:
    """The tolerances of the paper, from h₀ = 1e-3."""
    return Rule(1e-8, 1e-6, safety, min_factor, 5.0, 1e-3)


class History(NamedTuple):
    """Accepted steps: ends t, sizes h, the indicator err of equation (21) and ‖ŷ - y‖, shape (n,) each.

    `rejected`: failed attempts; `state`: at the end.
    """

    t: np.ndarray
    h: np.ndarray
    err: np.ndarray
    estimate: np.ndarray
    rejected: int
    state: Any

    def within(self, values: np.ndarray, start: float) -> np.ndarray:
        """Those of the steps that end in a second that begins at `start`; the step cut to end on time left out."""
        return values[:-1][(self.t[:-1] > start) & (self.t[:-1] <= start + 1)]


def follow(problem: ph.Problem, rule: Rule, t1: float = 5.0) -> History:
    """A run of half-explicit order 5 with its embedded order 4, from 0 to t1."""
    method = ph.integrators.get("herk54", family="authors")
    system: Any = problem.system
    # Numbers as arrays, so that all rules share one compiled program.
    numbers = jax.tree.map(lambda x: jnp.asarray(x, float), rule)
    # All nodes count, a clamped one, too. The paper prints 6(N + 1); y = (θ, v) has twice as many components.
    m = jnp.asarray(12.0 * (EDGES[problem.name] + 1))
    rows, n, rejected, state = _run(system, method, problem.state0, numbers, jnp.asarray(t1), m)
    t, h, err, estimate = np.asarray(rows)[: int(n)].T
    if not n or t[-1] < t1:
        raise RuntimeError(f"{problem.name}: {_MOST_STEPS} attempts did not reach t = {t1:g} with {rule}.")
    return History(t, h, err, estimate, int(rejected), state)


class _Progress(NamedTuple):
    n: Array
    t: Array
    h: Array
    carry: Any
    rejected: Array
    rows: Array


@xla_jit
def _run(
    system: AbstractMechanical, method: AbstractIntegrator, state: Any, rule: Rule, t1: Array, m: Array
) -> tuple[Array, Array, Array, Any]:
    """Rows (t, h, err, ‖ŷ - y‖), their number, rejected steps and the state at the end."""

    def attempt(p: _Progress) -> _Progress:
        last = p.h * (1 + 1e-9) >= t1 - p.t
        h = jnp.where(last, t1 - p.t, p.h)
        carry, info = method.step(system, p.t, h, p.carry)
        assert info.error is not None
        (q0, v0), (q1, v1) = p.carry.state, carry.state
        # y = (θ, v), with θ = 0 at the start of every step.
        theta = system.configuration.difference(q0, q1)
        largest = jnp.concatenate((jnp.abs(theta), jnp.maximum(jnp.abs(v0), jnp.abs(v1))))
        err = jnp.sqrt(jnp.sum((info.error / (rule.atol + largest * rule.rtol)) ** 2) / m)
        raw = rule.safety * jnp.maximum(err, 1e-30) ** (-1 / 5)
        factor = jnp.clip(jnp.where(jnp.isfinite(raw), raw, rule.min_factor), rule.min_factor, rule.max_factor)
        good = err <= 1
        t = jnp.where(last, t1, p.t + h)
        row = jnp.stack((t, h, err, jnp.linalg.norm(info.error)))
        return _Progress(
            n=p.n + good,
            t=jnp.where(good, t, p.t),
            h=h * factor,
            carry=jax.tree.map(lambda new, old: jnp.where(good, new, old), carry, p.carry),
            rejected=p.rejected + ~good,
            rows=p.rows.at[p.n].set(row),
        )

    zero = jnp.zeros(())
    carry = jax.tree.map(jnp.asarray, method.init(system, zero, rule.first_step, state))
    count = jnp.zeros((), jnp.int64)
    first = _Progress(count, zero, rule.first_step, carry, count, jnp.zeros((_MOST_STEPS, 4)))
    end = jax.lax.while_loop(lambda p: (p.t < t1) & (p.n + p.rejected < _MOST_STEPS), attempt, first)
    return end.rows, end.n, end.rejected, end.carry.state
