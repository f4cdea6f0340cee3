"""Bonds between particles: their energies, and forces and moments in closed form."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array, Float, Int

from polhode import checks
from polhode.checks import short_repr
from polhode.spaces.component_arrays import (
    Quaternions,
    Vectors,
    add,
    add_scaled,
    conjugate,
    cross,
    dot,
    relative_rotation,
    rotate,
    scale,
)

Shear = Literal["objective", "literal"]


class Strength(eqx.Module):
    """Strength of a bond: it breaks when N/`tension` + |M|/`moment` + S/`shear` exceeds 1.

    N is the tensile force, zero under pressure; M = K^m θ₁₂ the moment of bending and torsion; S the shear force. Parts
    that are infinite, the default, don't count.
    """

    tension: Float[Array, ""]
    moment: Float[Array, ""]
    shear: Float[Array, ""]

    def __init__(self, tension: Any = np.inf, moment: Any = np.inf, shear: Any = np.inf) -> None:
        for name, value in (("tension", tension), ("moment", moment), ("shear", shear)):
            requirement = "a number greater than zero, or infinite"
            if checks.is_concrete(value) and not (checks.shape(name, value, requirement) == () and value > 0):
                raise ValueError(f"`{name}` must be a number greater than zero, or infinite, got {short_repr(value)}.")
        self.tension, self.moment, self.shear = (jnp.asarray(x, float) for x in (tension, moment, shear))

    @property
    def is_finite(self) -> bool:
        """Whether the bond can break; True for traced numbers."""
        parts = self.tension, self.moment, self.shear
        return not checks.is_concrete(parts) or bool(np.any(np.isfinite(np.stack([np.asarray(x) for x in parts]))))


class BondMaterial(eqx.Module):
    r"""Constants of one type of bond, with d = x₁ - x₂, l = |d|, and d₀, L₀ at the start.

    **Arguments:**

    - `bending`: K^m of $\tfrac12K^m|\theta_{12}|^2$ with $\exp\hat\theta_{12} = R_1R_2^T$; an energy.
    - `axial`: K^a of $\tfrac12K^a(l/L_0-1)^2$; an energy.
    - `shear`: K^s of $\tfrac12K^s(1-c)^2$; an energy. c is $(R_1d_0+R_2d_0)\cdot d/(2L_0l)$, or, for the literal law of
      the paper, $R_1d_0\cdot R_2d/(L_0l)$.
    - `axial_damping`: force along the bond per speed of stretching. - `bending_damping`: moment per difference of
      angular velocities.
    - `strength`: when it breaks; None if it never does.

    ??? cite "Reference"
        C. Baker, M. Gonzalez, Explicit variational time integrator based on rescaled Rodrigues parameters, equations
        (44), (51) and (53).
    """

    bending: Float[Array, ""]
    axial: Float[Array, ""]
    shear: Float[Array, ""]
    axial_damping: Float[Array, ""]
    bending_damping: Float[Array, ""]
    strength: Strength | None

    def __init__(
        self,
        bending: Any,
        axial: Any,
        shear: Any,
        axial_damping: Any = 0.0,
        bending_damping: Any = 0.0,
        strength: Strength | None = None,
    ) -> None:
        constants = {"bending": bending, "axial": axial, "shear": shear}
        dampers = {"axial_damping": axial_damping, "bending_damping": bending_damping}
        values = {}
        for name, value in {**constants, **dampers}.items():
            values[name] = checks.not_negative(name, value, (), "constant of a bond")
        self.bending, self.axial, self.shear = (values[name] for name in constants)
        self.axial_damping, self.bending_damping = (values[name] for name in dampers)
        if not (strength is None or isinstance(strength, Strength)):
            raise ValueError(f"`strength` must be a `Strength` or None, got {type(strength).__name__}.")
        self.strength = strength


class Constants(NamedTuple):
    """Constants of bonds, and d₀ and L₀; arrays of one shape, d₀ of three."""

    bending: Array
    axial: Array
    shear: Array
    length: Array
    arm: Vectors

    def scale(self, whole: Any) -> Constants:
        """Constants of bonds with stiffness reduced to the share `whole`."""
        return self._replace(bending=whole * self.bending, axial=whole * self.axial, shear=whole * self.shear)


class Pair(NamedTuple):
    """Both ends of bonds, relative to one of them, `here`.

    `sign`: 1 where `here` is the first end of the bond, -1 where it is the second.
    """

    d: Vectors
    here: Quaternions
    there: Quaternions
    sign: Any


def loads(
    law: Shear, k: Constants, pair: Pair, push: Callable[[Array], Array] | None = None
) -> tuple[Vectors, Vectors]:
    """Force and moment on the end `here`; zero where d = 0, as in padded slots.

    `push`: additional force along the bond as a function of its length.
    """
    inverse = _inverse_length(pair.d)
    n = scale(inverse, pair.d)
    length = 1 / jnp.where(inverse > 0, inverse, 1.0)
    along = -k.axial / k.length * (length / k.length - 1)
    force = scale(along if push is None else along + push(length), n)
    moment = scale(-k.bending, relative_rotation(pair.here, pair.there))
    c, transverse, moment_direction = _shear_terms(law, k, pair, n)
    s = k.shear * (1 - c)
    return add_scaled(force, s * inverse, transverse), add_scaled(moment, s, moment_direction)


def energies(law: Shear, k: Constants, pair: Pair) -> tuple[Array, Array, Array]:
    """Energies of bending and torsion, of stretching, and of shearing, of whole bonds."""
    inverse = _inverse_length(pair.d)
    real = inverse > 0
    length = 1 / jnp.where(real, inverse, 1.0)
    theta = relative_rotation(pair.here, pair.there)
    c = _shear_terms(law, k, pair, scale(inverse, pair.d))[0]
    bending, axial = 0.5 * k.bending * dot(theta, theta), 0.5 * k.axial * (length / k.length - 1) ** 2
    return bending, jnp.where(real, axial, 0.0), jnp.where(real, 0.5 * k.shear * (1 - c) ** 2, 0.0)


def _shear_terms(law: Shear, k: Constants, pair: Pair, n: Vectors) -> tuple[Array, Vectors, Vectors]:
    """c, l times the force per K^s (1 - c), and the moment per K^s (1 - c)."""
    unit = scale(pair.sign / k.length, k.arm)
    a, b = rotate(pair.here, unit), rotate(pair.there, unit)
    if law == "objective":
        mean = scale(0.5, add(a, b))
        c = dot(mean, n)
        return c, add_scaled(mean, -c, n), scale(0.5, cross(a, n))
    # The first end turns d₀, the second one d; from the second end's side both change places.
    first = pair.sign > 0
    swap = lambda p, q: tuple(jnp.where(first, x, y) for x, y in zip(p, q, strict=True))  # noqa: E731
    turned_arm, second = swap(a, b), swap(pair.there, pair.here)
    turned_d = rotate(second, n)
    c = dot(turned_arm, turned_d)
    back = rotate(conjugate(second), turned_arm)
    return c, add_scaled(back, -c, n), scale(pair.sign, cross(turned_arm, turned_d))


def stress(law: Shear, k: Constants, pair: Pair, limits: Vectors) -> Array:
    """N/`tension` + |M|/`moment` + S/`shear` of bonds with these limits."""
    inverse = _inverse_length(pair.d)
    length = 1 / jnp.where(inverse > 0, inverse, 1.0)
    theta = relative_rotation(pair.here, pair.there)
    c, transverse, _ = _shear_terms(law, k, pair, scale(inverse, pair.d))
    tension = jnp.maximum(k.axial / k.length * (length / k.length - 1), 0.0)
    shear = k.shear * jnp.abs(1 - c) * inverse * jnp.sqrt(dot(transverse, transverse))
    return tension / limits[0] + k.bending * jnp.sqrt(dot(theta, theta)) / limits[1] + shear / limits[2]


def _inverse_length(d: Vectors) -> Array:
    square = dot(d, d)
    real = square > 0
    return jnp.where(real, 1 / jnp.sqrt(jnp.where(real, square, 1.0)), 0.0)


def damping(axial: Array, bending: Array, d: Vectors, v: Vectors, omega: Vectors) -> tuple[Vectors, Vectors]:
    """Force and moment on the seeing end from velocities relative to the other one."""
    n = scale(_inverse_length(d), d)
    return scale(-axial * dot(n, v), n), scale(-bending, omega)


class Slots(NamedTuple):
    """Bonds as the particles see them, in k places for each of n particles, filled up with the particle itself.

    - `partner`: number of the other end, shape (k, n). - `bond`: number of the bond, `m` where there is none.
    - `sign`: 1 for the first end, -1 for the second, 0 where there is none.
    """

    partner: Int[Array, "k n"]
    bond: Int[Array, "k n"]
    sign: Float[Array, "k n"]


def slots(n: int, pairs: np.ndarray) -> Slots:
    """Where the bonds `pairs`, shape (m, 2), show up at their particles."""
    m = len(pairs)
    owner, other = pairs.T.reshape(-1), pairs[:, ::-1].T.reshape(-1)
    bond, sign = np.tile(np.arange(m), 2), np.repeat([1.0, -1.0], m)
    order = np.argsort(owner, kind="stable")
    count = np.bincount(owner, minlength=n)
    first = np.concatenate(([0], np.cumsum(count)[:-1]))
    rank = np.arange(2 * m) - first[owner[order]]
    k = int(count.max(initial=0))
    partner = np.broadcast_to(np.arange(n), (k, n)).copy()
    which, ends = np.full((k, n), m), np.zeros((k, n))
    for table, values in ((partner, other), (which, bond), (ends, sign)):
        table[rank, owner[order]] = values[order]
    return Slots(jnp.asarray(partner, jnp.int32), jnp.asarray(which, jnp.int32), jnp.asarray(ends))
