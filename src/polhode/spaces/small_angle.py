r"""The scalar functions of rotation, all as functions of s = w², the squared rotation angle.

| name | value | at 0 |
|---|---|---|
| A | sin w / w | 1 |
| B | (1 - cos w)/w² | 1/2 |
| C | (w - sin w)/w³ | 1/6 |
| D | (2 - 2 cos w - w sin w)/w⁴ = -B'(w)/w | 1/12 |
| E | (w (2 + cos w) - 3 sin w)/w⁵ = -C'(w)/w | 1/60 |
| f | (1 - (w/2) cot(w/2))/w² | 1/12 |
| g | f'(w)/w | 1/360 |

A to E are entire; f and g have poles at w = 2π. None is evaluated from the expression above: two polynomials in
t = s/64 (an eighth of the angle) give everything there, and three doublings of the angle, none of which
cancels, lead back. So there is no trigonometric call, no square root and no branch, all derivatives exist at 0, and a
batch vectorises. Sharing is left to the compiler: functions called with the same s use the same two polynomials.

With K = (A - cos)/t = -A'/w and M = D - E = -K'/w at any level, the doubling h → 2h reads

    A ← A c,  c ← 1 - 2tA²,  K ← (Kc + A²)/4,  C ← (C + AB)/4,  M ← (Mc + 3AK)/16,   B = C + K,

from A(2h) = A(h) cos h by differentiating with (1/w) d/dw. The polynomials are G = (1/6 - C)/t and E, Taylor series
shortened by Chebyshev polynomials in exact rational arithmetic.

Accurate to a few units in the last place for w in [0, 2π] and to 1e-13 up to 6π. Beyond `LARGEST_S` the result is NaN.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import NamedTuple

import jax
import jax.numpy as jnp
from jaxtyping import Array, Float

Scalar = Float[Array, ""]

_LARGEST_T = Fraction(50, 9)
LARGEST_S = float(64 * _LARGEST_T)
"""Largest squared angle (6.002π)² that the polynomials cover."""


def economise(taylor: Sequence[Fraction], terms: int, upper: Fraction) -> tuple[float, ...]:
    """Shorten a polynomial on [0, upper] by subtracting multiples of shifted Chebyshev polynomials.

    These have whole coefficients on [0, 1], so exact arithmetic on whole numbers over one denominator does.
    """
    chebyshev = [[1], [-1, 2]]
    while len(chebyshev) < len(taylor):
        last, before = chebyshev[-1], chebyshev[-2]
        chebyshev.append([4 * a - 2 * b - c for a, b, c in zip([0, *last], [*last, 0], [*before, 0, 0], strict=True)])
    coefficients = [c * upper**k for k, c in enumerate(taylor)]
    denominator = math.lcm(*(c.denominator for c in coefficients))
    numerators = [c.numerator * (denominator // c.denominator) for c in coefficients]
    while len(numerators) > terms:
        chebyshev_k = chebyshev[len(numerators) - 1]
        factor, last = chebyshev_k[-1], numerators[-1]
        numerators = [factor * c - last * p for c, p in zip(numerators, chebyshev_k, strict=True)][:-1]
        denominator *= factor
    return tuple(float(Fraction(c, denominator) / upper**k) for k, c in enumerate(numerators))


def _factorial_series(numerator: Sequence[int], offset: int) -> list[Fraction]:
    return [Fraction((-1) ** k * n, math.factorial(2 * k + offset)) for k, n in enumerate(numerator)]


_G = economise(_factorial_series([1] * 24, 5), 8, _LARGEST_T)
_E = economise(_factorial_series([2 * k + 2 for k in range(24)], 5), 8, _LARGEST_T)
_ARCTANGENT = economise([Fraction((-1) ** k, 2 * k + 1) for k in range(24)], 8, Fraction(1, 25))


def polynomial(coefficients: Sequence[float], t: Scalar) -> Scalar:
    """Even and odd parts by Horner's rule: half the latency of one chain, one multiplication more."""
    t2 = t * t
    even: Scalar | float = coefficients[-2]
    odd: Scalar | float = coefficients[-1]
    for k in range(len(coefficients) - 4, -1, -2):
        even = coefficients[k] + t2 * even
        odd = coefficients[k + 1] + t2 * odd
    return even + t * odd


class _Level(NamedTuple):
    """Functions at one angle √t from which those at its double follow; c is its cosine."""

    t: Scalar
    A: Scalar
    c: Scalar
    K: Scalar


class _Chain(NamedTuple):
    """An eighth, a quarter and half of the angle, with C and the polynomials at the eighth."""

    eighth: _Level
    quarter: _Level
    half: _Level
    C: Scalar
    G: Scalar
    E: Scalar


@jax.jit
def _chain(s: Scalar) -> _Chain:
    t = jnp.where(s <= LARGEST_S, s, jnp.nan) * (1 / 64)
    G, E = polynomial(_G, t), polynomial(_E, t)
    C = 1 / 6 - t * G
    K = 2 * C - t * E
    A = 1 - t * C
    eighth = _Level(t, A, A - t * K, K)
    quarter = _double(eighth)
    return _Chain(eighth, quarter, _double(quarter), C, G, E)


def _double(h: _Level) -> _Level:
    t, A, c, K = h
    A2 = A * A
    return _Level(4 * t, A * c, 1 - 2 * t * A2, 0.25 * (K * c + A2))


def _half_c(chain: _Chain) -> Scalar:
    """C at half the angle."""
    C = chain.C
    for h in (chain.eighth, chain.quarter):
        C = 0.25 * (C + h.A * (C + h.K))
    return C


def _half_m(chain: _Chain) -> Scalar:
    """M at half the angle."""
    M = chain.C - (3 * chain.E + 6 * chain.G)
    for h in (chain.eighth, chain.quarter):
        M = 0.0625 * (M * h.c + 3 * (h.A * h.K))
    return M


@jax.jit
def half_angle(s: Scalar) -> tuple[Scalar, Scalar]:
    """(cos(w/2), sin(w/2)/w): the unit quaternion of a rotation vector θ is (first, second·θ)."""
    h = _chain(s).half
    return h.c, 0.5 * h.A


@jax.jit
def a_b(s: Scalar) -> tuple[Scalar, Scalar]:
    """(A, B), the coefficients of the exponential of SO(3)."""
    h = _chain(s).half
    return h.A * h.c, 0.5 * (h.A * h.A)


@jax.jit
def b_c(s: Scalar) -> tuple[Scalar, Scalar]:
    """(B, C), the coefficients of dexp of SO(3)."""
    chain = _chain(s)
    h, C = chain.half, _half_c(chain)
    return 0.5 * (h.A * h.A), 0.25 * (C + h.A * (C + h.K))


@jax.jit
def b_c_d_e(s: Scalar) -> tuple[Scalar, Scalar, Scalar, Scalar]:
    """(B, C, D, E), the coefficients of dexp of SE(3)."""
    chain = _chain(s)
    h, C = chain.half, _half_c(chain)
    D = 0.25 * (chain.quarter.A * chain.quarter.K)
    # At the half angle 3C + 3AB - 2A² = 16 t E(2h), rewritten so that nothing cancels.
    E = (h.A * C + D * (1 + 3 * h.A) + 2 * (D - _half_m(chain))) * (1 / 32)
    return 0.5 * (h.A * h.A), 0.25 * (C + h.A * (C + h.K)), 0.25 * (h.A * h.K), E


@jax.jit
def f(s: Scalar) -> Scalar:
    """(1 - (w/2) cot(w/2))/w² = K/(4A) at the half angle: the coefficient of dexpinv of SO(3)."""
    h = _chain(s).half
    return 0.25 * h.K / h.A


@jax.jit
def f_g(s: Scalar) -> tuple[Scalar, Scalar]:
    """(f, f'(w)/w), the coefficients of dexpinv of SE(3)."""
    chain = _chain(s)
    r = 1 / chain.half.A
    f = chain.half.K * r
    return 0.25 * f, 0.0625 * (chain.half.K * f - _half_m(chain)) * r


@jax.jit
def half_angle_any(s: Scalar) -> tuple[Scalar, Scalar]:
    """`half_angle` for every angle: trigonometric functions beyond the range of the polynomials."""
    inside, near, w = _split(s)
    c, a = half_angle(near)
    return jnp.where(inside, c, jnp.cos(0.5 * w)), jnp.where(inside, a, jnp.sin(0.5 * w) / w)


@jax.jit
def a_b_any(s: Scalar) -> tuple[Scalar, Scalar]:
    """`a_b` for every angle."""
    inside, near, w = _split(s)
    A, B = a_b(near)
    return jnp.where(inside, A, jnp.sin(w) / w), jnp.where(inside, B, 2 * (jnp.sin(0.5 * w) / w) ** 2)


@jax.jit
def b_c_any(s: Scalar) -> tuple[Scalar, Scalar]:
    """`b_c` for every angle."""
    inside, near, w = _split(s)
    B, C = b_c(near)
    far_B, far_C = 2 * (jnp.sin(0.5 * w) / w) ** 2, (w - jnp.sin(w)) / w**3
    return jnp.where(inside, B, far_B), jnp.where(inside, C, far_C)


def _split(s: Scalar) -> tuple[Array, Scalar, Scalar]:
    """(inside the polynomials' range?, s there and 0 elsewhere, w outside and a dummy inside): no NaN gradients."""
    inside = s <= LARGEST_S
    return inside, jnp.where(inside, s, 0.0), jnp.sqrt(jnp.where(inside, LARGEST_S, s))


@jax.jit
def angle_over_sine(c: Scalar, n2: Scalar) -> Scalar:
    """atan2(n, c)/n for c ≥ 0, where n2 = n²; homogeneous of degree -1, so (c, n) need not be normalised.

    Three halvings tan(a/2) = tan a/(1 + √(1 + tan²a)) and a polynomial; smooth at n = 0. For a unit quaternion
    (p0, p) with p0 ≥ 0 the rotation vector is 2·angle_over_sine(p0, |p|²)·p.
    """
    first = jnp.sqrt(c * c + n2) + c
    x = n2 / (first * first)
    second = 1 + jnp.sqrt(1 + x)
    x = x / (second * second)
    third = 1 + jnp.sqrt(1 + x)
    x = x / (third * third)
    return 8 * polynomial(_ARCTANGENT, x) / (first * second * third)
