"""The scalar functions of rotation against 40 digits, and the logarithm's."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from compiling import evaluated

from polhode.spaces import small_angle

EPS = np.finfo(float).eps
mpf = mpmath.mpf


def exact(s: float) -> dict[str, Any]:
    """All functions at s at the working precision, from their definitions; s is taken as the exact binary number."""
    w = mpmath.sqrt(mpf(s))
    sine, cosine, cot = mpmath.sin(w), mpmath.cos(w), mpmath.cot(w / 2)
    f = (1 - w / 2 * cot) / w**2
    return {
        "cos half": mpmath.cos(w / 2),
        "sin half / w": mpmath.sin(w / 2) / w,
        "A": sine / w,
        "B": (1 - cosine) / w**2,
        "C": (w - sine) / w**3,
        "D": (2 - 2 * cosine - w * sine) / w**4,
        "E": (w * (2 + cosine) - 3 * sine) / w**5,
        "f": f,
        "g": (w / 4 * (1 + cot**2) - cot / 2) / w**3 - 2 * f / w**2,
    }


def function_values(s: jax.Array) -> dict[str, jax.Array]:
    (c, a), (A, B), (f, g) = small_angle.half_angle(s), small_angle.a_b(s), small_angle.f_g(s)
    _, C, D, E = small_angle.b_c_d_e(s)
    return {"cos half": c, "sin half / w": a, "A": A, "B": B, "C": C, "D": D, "E": E, "f": f, "g": g}


@functools.cache
def errors(low: float, high: float) -> dict[str, float]:
    """Largest error in units of round-off. Relative, save what the rounding of s to 53 bits alone would change."""
    s = np.geomspace(low, high, 60) ** 2
    values = {name: np.asarray(x) for name, x in jax.vmap(function_values)(s).items()}
    worst = dict.fromkeys(values, 0.0)
    with mpmath.workdps(120):
        for i, si in enumerate(s):
            reference, shifted = exact(float(si)), exact(float(si) * (1 + 2**-20))
            for name, value in reference.items():
                conditioning = abs(shifted[name] - value) * 2**20
                error = abs(mpf(float(values[name][i])) - value) / (abs(value) + conditioning)
                worst[name] = max(worst[name], float(error) / EPS)
    return worst


@pytest.mark.parametrize("name", exact(1.0))
def test_few_units_in_the_last_place_up_to_a_full_turn(name: str):
    assert errors(1e-12, 1e-3)[name] <= 8
    assert errors(1e-3, 1.0)[name] <= 8
    assert errors(1.0, 3.2)[name] <= 8
    assert errors(3.2, 6.28)[name] <= 8


@pytest.mark.parametrize("name", exact(1.0))
def test_thirteen_digits_up_to_three_turns(name: str):
    assert errors(6.29, 12.5)[name] <= 450
    assert errors(12.6, 18.85)[name] <= 450


def test_values_at_zero():
    values = function_values(jnp.zeros(()))
    expected = {"cos half": 1, "sin half / w": 1 / 2, "A": 1, "B": 1 / 2, "C": 1 / 6, "D": 1 / 12, "E": 1 / 60}
    for name, value in {**expected, "f": 1 / 12, "g": 1 / 360}.items():
        assert abs(values[name] - value) <= 8 * EPS * value, name


def test_nan_beyond_the_range_instead_of_a_wrong_number():
    beyond = function_values(jnp.asarray(small_angle.LARGEST_S * (1 + 1e-15)))
    within = function_values(jnp.asarray(small_angle.LARGEST_S))
    for name in beyond:
        assert np.isnan(beyond[name]), name
        assert np.isfinite(within[name]), name
    assert (6 * np.pi) ** 2 <= small_angle.LARGEST_S


DERIVATIVES = [
    (lambda s: small_angle.a_b(s)[1], lambda s: -small_angle.b_c_d_e(s)[2] / 2),
    (lambda s: small_angle.b_c(s)[1], lambda s: -small_angle.b_c_d_e(s)[3] / 2),
    (small_angle.f, lambda s: small_angle.f_g(s)[1] / 2),
    (lambda s: small_angle.half_angle(s)[0], lambda s: -small_angle.half_angle(s)[1] / 4),
]


@pytest.mark.exhaustive
@pytest.mark.sampled(4)
@pytest.mark.parametrize(("function", "derivative"), DERIVATIVES, ids=["B", "C", "f", "cos half"])
def test_derivatives_with_respect_to_s(function: Callable, derivative: Callable):
    """B' = -D/2, C' = -E/2, f' = g/2, cos(w/2)' = -(sin(w/2)/w)/4; and four derivatives exist at zero."""
    s = jnp.array([0.0, 1e-30, 1e-4, 0.5, 9.0, 30.0])
    np.testing.assert_allclose(evaluated(jax.vmap(jax.grad(function)), s), jax.vmap(derivative)(s), rtol=2e-14)
    high = function
    for _ in range(4):
        high = jax.jacfwd(high)
    assert bool(jnp.all(jnp.isfinite(evaluated(jax.vmap(high), s))))


@pytest.mark.exhaustive
@pytest.mark.parametrize("w", [0.0, 1e-9, 2.0, 18.8, 18.9, 40.0, 1e3])
def test_functions_for_every_angle(w: float):
    s = jnp.asarray(w * w)
    with mpmath.workdps(40):
        reference = exact(w * w) if w else {"cos half": 1, "sin half / w": 0.5, "A": 1, "B": 0.5, "C": mpf(1) / 6}
        reference = {name: float(value) for name, value in reference.items()}
    pairs = {
        small_angle.half_angle_any: ("cos half", "sin half / w"),
        small_angle.a_b_any: ("A", "B"),
        small_angle.b_c_any: ("B", "C"),
    }
    for function, names in pairs.items():
        expected = [reference[name] for name in names]
        np.testing.assert_allclose(function(s), expected, rtol=1e-12, atol=1e-13 / max(1.0, w))
        slopes = jax.jacfwd(function)(s)
        assert np.all(np.isfinite(slopes))


def test_angle_over_sine():
    """To 4 units of round-off from 0 to a right angle, for any normalisation, with derivatives."""
    angles = np.concatenate(([1e-150], np.geomspace(1e-12, np.pi / 2, 40)))
    for r in (1.0, 1e-3, 7.0):
        c, n = r * np.maximum(np.cos(angles), 0), r * np.sin(angles)
        values = jax.vmap(small_angle.angle_over_sine)(jnp.asarray(c), jnp.asarray(n * n))
        with mpmath.workdps(40):
            reference = [
                float(mpmath.atan2(mpmath.sqrt(mpf(b) * mpf(b)), mpf(a)) / mpf(b)) for a, b in zip(c, n, strict=True)
            ]
        np.testing.assert_allclose(values, reference, rtol=4 * EPS)
    assert float(small_angle.angle_over_sine(jnp.ones(()), jnp.zeros(()))) == pytest.approx(1.0, abs=EPS)
    # atan2(n, c)/n = 1/c - n²/(3c³) + …
    slope = jax.grad(small_angle.angle_over_sine, argnums=1)(1.0, 0.0)
    np.testing.assert_allclose(slope, -1 / 3, rtol=1e-14)
