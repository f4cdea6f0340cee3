"""The tangent of an edge in closed form, with a fifth of the operations of differentiating its loads."""

from __future__ import annotations

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

from polhode.multibody.mechanism.poses import Poses, Twists
from polhode.rods.strain import HelicalStrain, Increment, Vector6
from polhode.spaces import small_angle
from polhode.spaces.base import cross, hat

Matrix12 = Float[Array, "12 12"]
Matrix6 = Float[Array, "6 6"]


def helical_tangent(
    poses: Poses, twists: Twists | None, stress: Vector6, C: Matrix6, D: Matrix6 | None
) -> tuple[Matrix12, Matrix12 | None]:
    r"""Minus the derivatives of the loads on both nodes along poses and along twists, all in the frames of the nodes.

    $\delta d = G\,\delta\xi$ with $G = (-T^{-1}(-d),\ T^{-1}(d))$ and the loads are $-G^Tn$, so that
    $K = (G^TC + \partial(G^Tn)/\partial d)\,G$, plus the terms of nodes that turn while forces keep their direction.

    **Arguments:**

    - `stress`: n, damping included.
    - `C`, `D`: derivatives of n with respect to d and its rate; D = None without damping, and `twists` with it.
    """
    d = HelicalStrain().increment(poses)
    G = _strain_rows(d)
    if D is not None and twists is not None:
        v = jnp.concatenate([x for pose, w in zip(poses, twists, strict=True) for x in (w.omega, pose.R.T @ w.u)])
        C = C + D @ jax.jacfwd(lambda x: _rate(_increment(x), v))(d.vector)
    load_slopes = jax.jacfwd(lambda x: _loads(_increment(x), stress))(d.vector)
    K = (G.T @ C - load_slopes) @ G
    loads = _loads(d, stress)
    for force in (slice(3, 6), slice(9, 12)):
        K = K.at[force, force.start - 3 : force.start].add(hat(loads[force]))
    return K, None if D is None else G.T @ D @ G


def _increment(vector: Vector6) -> Increment:
    theta = vector[:3]
    return Increment(theta, vector[3:], *small_angle.f_g(theta @ theta))


def _strain_rows(d: Increment) -> Float[Array, "6 12"]:
    """G = (-T⁻¹(-d), T⁻¹(d)) on body-fixed velocities; T⁻¹(±d) = even ± odd."""
    Th, U, zero = hat(d.theta), hat(d.U), jnp.zeros((3, 3))
    square = Th @ Th
    mixed = d.f * (U @ Th + Th @ U) + d.g * (d.theta @ d.U) * square
    turn = jnp.eye(3) + d.f * square
    even = jnp.block([[turn, zero], [mixed, turn]])
    odd = 0.5 * jnp.block([[Th, zero], [U, Th]])
    return jnp.concatenate((odd - even, odd + even), axis=1)


def _loads(d: Increment, n: Vector6) -> Float[Array, "12"]:
    """The loads -Gᵀn on both nodes in their own frames."""
    m, f = n[:3], n[3:]
    Of = cross(d.theta, f)
    OOf, mixed = cross(d.theta, Of), cross(d.theta, m) + cross(d.U, f)
    moment = m + d.f * (cross(d.theta, mixed) + cross(d.U, Of)) + d.g * (d.theta @ d.U) * OOf
    force = f + d.f * OOf
    return jnp.concatenate((moment + 0.5 * mixed, force + 0.5 * Of, 0.5 * mixed - moment, 0.5 * Of - force))


def _rate(d: Increment, v: Float[Array, "12"]) -> Vector6:
    """G v."""
    return _strain_rows(d) @ v
