"""Motions of mechanisms in their fewest coordinates, without joints, systems or integrators of the library."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp

Placement = tuple[Any, Any]
"""Position of the centre of mass and rotation matrix."""


def angular_velocity(R: Any, rate: Any) -> Any:
    S = R.T @ rate
    return jnp.stack((S[2, 1], S[0, 2], S[1, 0]))


def accelerate(
    poses: Callable[[Any], list[Placement]], masses: Any, inertias: Any, potential: Callable[[Any], Any]
) -> Callable[[Any, Any, Any], Any]:
    """(coordinates, rates, generalised forces) → accelerations, by Lagrange's equations of T - V."""

    def kinetic(q: Any, v: Any) -> Any:
        at, rates = jax.jvp(poses, (q,), (v,))
        energy = 0.0
        for (_, R), (u, S), m, J in zip(at, rates, masses, inertias, strict=True):
            omega = angular_velocity(R, S)
            energy = energy + 0.5 * (m * u @ u + omega @ (J * omega))
        return energy

    def rate(q: Any, v: Any, force: Any) -> Any:
        M = jax.hessian(kinetic, 1)(q, v)
        momentum_change = jax.jvp(lambda x: jax.grad(kinetic, 1)(x, v), (q,), (v,))[1]
        load = jax.grad(kinetic)(q, v) - jax.grad(potential)(q) - momentum_change + force
        return jnp.linalg.solve(M, load)

    return jax.jit(rate)


def motion(rate: Callable, force: Callable, q0: Any, v0: Any, t1: float, breaks: tuple = ()) -> tuple[Any, Any]:
    """Coordinates and rates at t1 by DOP853, restarted where the load has a kink."""
    y, n, t = np.concatenate((np.atleast_1d(q0), np.atleast_1d(v0))), np.size(q0), 0.0
    for end in (*breaks, t1):
        if end > t1:
            break

        def field(s: float, y: Any) -> Any:
            return np.concatenate((y[n:], np.asarray(rate(y[:n], y[n:], force(s, y[:n], y[n:])))))

        y = solve_ivp(field, (t, end), y, "DOP853", rtol=1e-12, atol=1e-12).y[:, -1]
        t = end
    return y[:n], y[n:]
