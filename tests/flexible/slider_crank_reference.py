"""The slider-crank with an elastic rod in four degrees of freedom: the frame goes through the ends of the rod."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from scipy.integrate import solve_ivp


def motion(p: Mapping[str, Any], times: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Places of the slider and deflections of the middle of the rod.

    The end C lies on the x axis, so the angle of the rod follows from the crank's and from its own stretch q₄.
    """
    a, b, side = p["crank_length"], p["rod_length"], p["thickness"]
    line, rigidity = p["density"] * side**2, p["modulus"] * side**4 / 12
    s, weights = np.polynomial.legendre.leggauss(24)
    s, weights = jnp.asarray(0.5 * (s + 1)), jnp.asarray(0.5 * weights)
    across = jnp.stack((jnp.sin(np.pi * s), jnp.sin(2 * np.pi * s), 0 * s, 0 * s))
    along = jnp.stack((0 * s, 0 * s, 4 * s * (1 - s), s * (2 * s - 1)))
    K = np.zeros((4, 4))
    K[0, 0], K[1, 1] = (rigidity * (k * np.pi) ** 4 / (2 * b**3) for k in (1, 2))
    K[2:, 2:] = p["modulus"] * side**2 / (3 * b) * np.array([[16.0, -8.0], [-8.0, 7.0]])

    def places(t, q):
        crank = p["crank_speed"] * t
        B = a * jnp.stack((jnp.cos(crank), jnp.sin(crank)))
        phi = -jnp.arcsin(a * jnp.sin(crank) / (b + q[3]))
        c, n = jnp.cos(phi), jnp.sin(phi)
        u, w = b * s + q @ along, q @ across
        return jnp.stack((B[0] + c * u - n * w, B[1] + n * u + c * w)), B[0] + c * (b + q[3])

    def lagrangian(t, q, rate):
        (rod, slider) = jax.jvp(places, (t, q), (jnp.ones(()), rate))[1]
        kinetic = 0.5 * line * b * weights @ jnp.sum(rod**2, axis=0) + 0.5 * p["slider_mass"] * slider**2
        return kinetic - 0.5 * q @ K @ q

    @jax.jit
    def rates(t, y):
        q, v = y[:4], y[4:]
        momentum = jax.grad(lagrangian, 2)
        M = jax.jacfwd(lambda w: momentum(t, q, w))(v)
        drift = jax.jvp(lambda t, q: momentum(t, q, v), (t, q), (jnp.ones(()), v))[1]
        return jnp.concatenate((v, jnp.linalg.solve(M, jax.grad(lagrangian, 1)(t, q, v) - drift)))

    found = solve_ivp(
        lambda t, y: np.asarray(rates(t, y)), (0.0, times[-1]), np.zeros(8), "DOP853", times, rtol=1e-9, atol=1e-13
    )
    slider = [float(places(t, q)[1]) for t, q in zip(times, jnp.asarray(found.y[:4].T), strict=True)]
    return np.array(slider), found.y[0]
