"""Half-explicit methods on a planar Kirchhoff rod in SE(2)ᴺ, written from the formulas alone: nothing of polhode."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

N = 8
DS = 10.0 / N
BENDING, STRETCH = 500.0, 1e4
DRAG = 2 * 50.0
MOMENT = 2 * np.pi * BENDING / 10.0
WEIGHT = np.array([1.0] * (N - 1) + [0.5]) * DS
MASS = np.stack([10 * WEIGHT, WEIGHT, WEIGHT], 1).reshape(-1)
ZERO = np.zeros(3 * N)

TABLEAUS = {2: ([[1], [1 / 2, 1 / 2]], [1 / 2, 1 / 2]), 3: ([[1 / 2], [2 / 9, 4 / 9], [1 / 4, 0, 3 / 4]], [0, -2, 3])}


class Place(NamedTuple):
    """Angles (N,) and positions (N, 2) of the nodes behind the clamped one, the rod along its first axis."""

    angle: Array
    x: Array


def rotated(angle: Array, v: Array) -> Array:
    c, s = jnp.cos(angle), jnp.sin(angle)
    return jnp.stack([c * v[..., 0] - s * v[..., 1], s * v[..., 0] + c * v[..., 1]], -1)


def chord(angle: Array) -> tuple[Array, Array]:
    """sin θ/θ and (1 - cos θ)/θ."""
    small = angle * angle < 1e-4
    safe = jnp.where(small, 1.0, angle)
    square = angle * angle
    a = jnp.where(small, 1 - square / 6 + square**2 / 120, jnp.sin(safe) / safe)
    b = jnp.where(small, angle * (1 / 2 - square / 24 + square**2 / 720), (1 - jnp.cos(safe)) / safe)
    return a, b


def moved(q: Place, theta: Array) -> Place:
    """q exp(θ), node by node."""
    turn, u = theta.reshape(N, 3)[:, 0], theta.reshape(N, 3)[:, 1:]
    a, b = chord(turn)
    arc = jnp.stack([a * u[:, 0] - b * u[:, 1], b * u[:, 0] + a * u[:, 1]], 1)
    return Place(q.angle + turn, q.x + rotated(q.angle, arc))


def increments(q: Place) -> Array:
    """Logarithms of the edges, (N, 3): angle, along, across."""
    angle, x = jnp.append(0.0, q.angle), jnp.concatenate([jnp.zeros((1, 2)), q.x])
    turn, r = angle[1:] - angle[:-1], rotated(-angle[:-1], x[1:] - x[:-1])
    a, b = chord(turn)
    size = a * a + b * b
    return jnp.stack([turn, (a * r[:, 0] + b * r[:, 1]) / size, (a * r[:, 1] - b * r[:, 0]) / size], 1)


def slopes(q: Place) -> Array:
    return jax.jacfwd(lambda theta: increments(moved(q, theta)))(jnp.asarray(ZERO))


def across(q: Place) -> Array:
    return slopes(q)[:, 2]


def force(q: Place, v: Array, sheared: bool) -> Array:
    """All forces but those of the constraint; `sheared`: with the stress of the shear that is constrained away."""
    G = slopes(q)
    keep = jnp.array([1.0, 1.0, float(sheared)])
    stress = keep * jnp.array([BENDING, STRETCH, STRETCH]) * (increments(q) - jnp.array([0, DS, 0]))
    stress = (stress + keep * DRAG * (G @ v)) / DS
    turn, along, side = v.reshape(N, 3).T
    gyroscopic = jnp.stack([0 * turn, WEIGHT * turn * side, -WEIGHT * turn * along], 1).reshape(-1)
    return (gyroscopic - jnp.einsum("ea,eai->i", stress, G)).at[3 * (N - 1)].add(MOMENT)


def rate(theta: Array, v: Array) -> Array:
    """θ̇ with which exp(θ) has the body-fixed velocity v, by solving for it."""

    def body(t: Array, dot: Array) -> Array:
        def arc(t: Array) -> Array:
            a, b = chord(t[0])
            return jnp.stack([a * t[1] - b * t[2], b * t[1] + a * t[2]])

        return jnp.append(dot[0], rotated(-t[0], jax.jvp(arc, (t,), (dot,))[1]))

    def one(t: Array, v: Array) -> Array:
        return jnp.linalg.solve(jax.jacfwd(lambda dot: body(t, dot))(jnp.zeros(3)), v)

    return jax.vmap(one)(theta.reshape(N, 3), v.reshape(N, 3)).reshape(-1)


def stage(q: Place, after: Place, f: Array, v: Array, h: Any) -> tuple[Array, Array]:
    """v̇ and λ at q, with which v + h v̇ keeps the constraint at the place after it."""
    B, C = across(q), across(after)
    multipliers = jnp.linalg.solve((C / MASS) @ B.T, C @ (v / h + f / MASS))
    return (f - B.T @ multipliers) / MASS, multipliers


def total(weights: list, terms: list) -> Array:
    return sum((w * term for w, term in zip(weights, terms, strict=False)), jnp.asarray(0.0))


def step(order: int, h: float, sheared: bool, state: tuple[Place, Array, Array]) -> tuple[Place, Array, Array]:
    A, d = TABLEAUS[order]
    q0, v0, first = state
    q, v = moved(q0, h * A[0][0] * v0), v0
    rates, multipliers = [v0], [first]
    accelerations = [(force(q0, v0, sheared) - across(q0).T @ first) / MASS]
    theta = h * A[0][0] * v0
    v = v0 + h * A[0][0] * accelerations[0]
    for row in A[1:]:
        rates.append(rate(theta, v))
        theta = h * total(row, rates)
        after = moved(q0, theta)
        known = v0 + h * total(row[:-1], accelerations)
        vdot, lagrange = stage(q, after, force(q, v, sheared), known, h * row[-1])
        accelerations.append(vdot)
        multipliers.append(lagrange)
        q, v = after, known + h * row[-1] * vdot
    return q, v, total(d, multipliers)


def roll_up(order: int, steps: int, sheared: bool, t1: float) -> tuple[np.ndarray, np.ndarray]:
    """Positions (N, 2) and multipliers (N,) at t1."""

    @jax.jit
    def run() -> tuple[Place, Array, Array]:
        line = jnp.stack([jnp.arange(1, N + 1) * DS, jnp.zeros(N)], 1)
        q, v = Place(jnp.zeros(N), line), jnp.asarray(ZERO)
        B, f = across(q), force(q, v, sheared)
        begin = q, v, jnp.linalg.solve((B / MASS) @ B.T, B @ (f / MASS))
        return jax.lax.fori_loop(0, steps, lambda k, s: step(order, t1 / steps, sheared, s), begin)

    q, _, multipliers = run()
    return np.asarray(q.x), np.asarray(multipliers)
