"""Exact motions and rates of change along a problem's field, without any integrator of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.flatten_util import ravel_pytree
from scipy.integrate import solve_ivp

from polhode import Problem

ODD = {
    "mass": 3.0,
    "length": 0.7,
    "gravity": 9.0,
    "inertia": (1.0, 2.0, 2.5),
    "axis": (0.6, 0.0, 0.8),
    "angular_velocity": (1.0, -2.0, 3.0),
}
"""A heavy top that has nothing in common with the default one."""


def along(problem: Problem, function: Callable, t: Any, state: Any, extra: Any = 0.0) -> Any:
    """Time derivative of `function(t, state)` along the field, `extra` added to the algebra element as a fault."""
    system: Any = problem.system
    velocity = system.field(jnp.asarray(t, float), state) + extra
    moving = lambda s: function(t + s, system.space.move(state, s * velocity))  # noqa: E731
    return jax.jvp(moving, (0.0,), (1.0,))[1]


def solve(problem: Problem, times: Any, rtol: float = 1e-13) -> list[Any]:
    """States at `times` by DOP853 in the ambient coordinates."""
    flat, unravel = ravel_pytree(problem.state0)

    @eqx.filter_jit
    def rate(t: Any, y: Any) -> Any:
        return ravel_pytree(problem.system.derivative(t, unravel(y)))[0]

    run = solve_ivp(lambda t, y: np.asarray(rate(t, y)), (0, max(times)), flat, "DOP853", times, rtol=rtol, atol=rtol)
    return [unravel(jnp.asarray(y)) for y in run.y.T]


def rotation(seed: int) -> np.ndarray:
    """A random rotation matrix."""
    matrix = np.linalg.qr(np.random.default_rng(seed).normal(size=(3, 3)))[0]
    return matrix * np.sign(np.linalg.det(matrix))


def hat(a: Any) -> np.ndarray:
    return np.array([[0, -a[2], a[1]], [a[2], 0, -a[0]], [-a[1], a[0], 0]])
