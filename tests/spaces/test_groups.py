"""What every group must do besides: axioms, exponential, adjoint maps, and 30-digit references."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import mpmath
import numpy as np
import pytest
from group_representations import DIGITS
from space_table import EPS, GROUPS, REPRESENTED, Case, ambient, distance, elements, every, points

from polhode.spaces import Cotangent

pytestmark = pytest.mark.sampled(8)

ALL = pytest.mark.parametrize("case", GROUPS.values(), ids=GROUPS.keys())
ANGLES = (0.0, 1e-12, 1e-7, 1e-3, 0.1, 0.9, 2.0, 3.1)


def random_elements(case: Case, seed: int) -> jax.Array:
    return elements(case, seed, ANGLES)


def same(group: Any, a: Any, b: Any) -> jax.Array:
    """Distance of two elements in the algebra, blind to the two names of a rotation."""
    return jnp.max(jnp.abs(group.log(group.compose(group.inverse(a), b))))


@pytest.mark.sampled(4)
@ALL
def test_axioms(case: Case):
    G = case.space

    def measure(a: Any, b: Any, c: Any) -> tuple[jax.Array, ...]:
        e = G.origin()
        return (
            same(G, G.compose(G.compose(a, b), c), G.compose(a, G.compose(b, c))),
            same(G, G.compose(a, e), a),
            same(G, G.compose(e, a), a),
            same(G, G.compose(a, G.inverse(a)), e),
            same(G, G.compose(G.inverse(a), a), e),
        )

    errors = every(measure, points(case, 1), points(case, 2), points(case, 3))
    assert float(jnp.max(jnp.stack(errors))) <= 200 * EPS, errors


@ALL
def test_exponential(case: Case):
    """One-parameter subgroups, the logarithm, `increment` and angles of many turns."""
    G = case.space

    def measure(theta: jax.Array) -> tuple[jax.Array, ...]:
        q = G.exp(theta)
        square = G.compose(q, q)
        return (
            same(G, G.compose(G.exp(0.3 * theta), G.exp(0.7 * theta)), q),
            same(G, G.exp(-theta), G.inverse(q)),
            jnp.max(jnp.abs(G.log(q) - theta) / (1e-300 + jnp.max(jnp.abs(theta)))),
            same(G, G.exp(2 * theta), square),
        )

    errors = every(measure, random_elements(case, 4))
    assert float(jnp.max(jnp.stack(errors))) <= 200 * EPS, errors


@pytest.mark.sampled(4)
@ALL
def test_adjoint_maps(case: Case):
    G = case.space

    def measure(a: Any, b: Any, u: jax.Array, v: jax.Array, mu: jax.Array) -> tuple[jax.Array, ...]:
        conjugate = G.compose(G.compose(a, G.exp(v)), G.inverse(a))
        slope = jax.jvp(lambda s: G.Ad(G.exp(s * u), v), (0.0,), (1.0,))[1]
        jacobi = G.ad(u, G.ad(v, mu)) + G.ad(v, G.ad(mu, u)) + G.ad(mu, G.ad(u, v))
        return (
            same(G, G.exp(G.Ad(a, v)), conjugate),
            jnp.max(jnp.abs(G.Ad(a, G.Ad(b, v)) - G.Ad(G.compose(a, b), v))),
            jnp.max(jnp.abs(slope - G.ad(u, v))),
            jnp.max(jnp.abs(jacobi)),
            jnp.abs(G.Ad_dual(a, mu) @ v - mu @ G.Ad(a, v)),
            jnp.abs(G.ad_dual(u, mu) @ v - mu @ G.ad(u, v)),
            jnp.abs(G.coadjoint(a, mu) @ v - mu @ G.Ad(G.inverse(a), v)),
        )

    u, v, mu = (elements(case, seed) for seed in (5, 6, 7))
    errors = every(measure, points(case, 5), points(case, 6), u, v, mu)
    assert float(jnp.max(jnp.stack(errors))) <= 1000 * EPS, [float(jnp.max(e)) for e in errors]


@ALL
def test_tangent_maps(case: Case):
    """dexp against the derivative of exp, its inverse, its transposes, and Ad_exp(θ) dexp_(-θ) = dexp_θ."""
    G = case.space

    def measure(theta: jax.Array, v: jax.Array, mu: jax.Array) -> tuple[jax.Array, ...]:
        q, along = jax.jvp(G.exp, (theta,), (v,))
        spatial = G.dexp(theta, v)
        by_dexp = jax.jvp(lambda s: G.compose(G.exp(s * spatial), q), (0.0,), (1.0,))[1]
        return (
            distance(along, by_dexp),
            jnp.max(jnp.abs(G.dexpinv(theta, spatial) - v)),
            jnp.max(jnp.abs(G.dexp(theta, G.dexpinv(theta, v)) - v)),
            jnp.abs(G.dexp_dual(theta, mu) @ v - mu @ spatial),
            jnp.abs(G.dexpinv_dual(theta, mu) @ v - mu @ G.dexpinv(theta, v)),
            jnp.max(jnp.abs(G.Ad(q, G.dexp(-theta, v)) - spatial)),
        )

    errors = every(measure, random_elements(case, 8), elements(case, 9), elements(case, 10))
    assert float(jnp.max(jnp.stack(errors))) <= 1000 * EPS, [float(jnp.max(e)) for e in errors]


@pytest.mark.sampled(5)
@ALL
def test_derivatives_of_the_logarithm_and_exponential_are_finite(case: Case):
    """At zero, and at either side of a right angle, of Shepperd's switch and of the end of the polynomials."""
    G = case.space
    angles = (0.0, 1e-9, np.pi / 2 - 1e-9, np.pi / 2 + 1e-9, 2.0943, 2.0945, 18.85, 18.86)

    def value(x: jax.Array) -> jax.Array:
        q = G.exp(x)
        flat = jnp.concatenate((ambient(q), G.log(q)))
        return jnp.sum(jnp.sin(flat + jnp.arange(len(flat))))

    def measure(x: jax.Array, v: jax.Array) -> tuple[jax.Array, jax.Array]:
        (_, gradient), (forward, second) = jax.jvp(jax.value_and_grad(value), (x,), (v,))
        return jnp.abs(forward - gradient @ v), second

    # The fibre part of the exponential of T*G needs dexp of G, which ends at 6π.
    angles = (*angles[:-1], 3.1) if isinstance(G, Cotangent) else angles
    errors, second = every(measure, elements(case, 11, angles), elements(case, 12, (1.0,) * len(angles)))
    assert float(jnp.max(errors)) <= 1e-12
    assert bool(jnp.all(jnp.isfinite(second)))


@pytest.mark.exhaustive
@pytest.mark.parametrize("case", REPRESENTED.values(), ids=REPRESENTED.keys())
def test_against_thirty_digits(case: Case):
    """exp, log, dexp, dexpinv, ad for angles 1e-12…π and length units independent of them.

    Errors count in the unit of each component, and relative to the angle where the value vanishes with it.
    """
    G, reference = case.space, case.representation
    generator = np.random.default_rng(20)
    angles = [*np.geomspace(1e-12, 3.0, 6), np.pi - 1e-3, np.pi - 1e-9]
    settings = [(angle, length) for i, angle in enumerate(angles) for length in _lengths(case, i)]
    theta = np.array([case.element(generator, angle, length) for angle, length in settings])
    v = np.array([case.element(generator, 1.0, length) for _, length in settings])

    def measure(theta: jax.Array, v: jax.Array) -> tuple[Any, ...]:
        q = G.exp(theta)
        return q, G.log(q), G.dexp(theta, v), G.dexpinv(theta, v), G.ad(theta, v)

    q, log, dexp, dexpinv, ad = (jax.tree.map(np.asarray, x) for x in every(measure, theta, v))
    with mpmath.workdps(DIGITS):
        for i, (_, length) in enumerate(settings):
            unit = case.unit_sizes(length)
            size = np.array([length**power for power in reference.powers])
            exact = reference.exp(theta[i])
            matrix = reference.matrix(jax.tree.map(lambda x, i=i: x[i], q))
            assert np.max(np.abs(matrix - exact) / np.abs(np.divide.outer(size, size))) <= 20 * EPS, settings[i]
            relative = np.where(unit == 1.0, np.max(np.abs(theta[i] / unit)), unit)
            assert np.max(np.abs(log[i] - theta[i]) / relative) <= 20 * EPS, settings[i]
            assert np.max(np.abs(dexp[i] - reference.dexp(theta[i], v[i])) / unit) <= 30 * EPS, settings[i]
            assert np.max(np.abs(dexpinv[i] - reference.dexpinv(theta[i], v[i])) / unit) <= 30 * EPS, settings[i]
            bracket = reference.ad(theta[i]).dot(v[i]).astype(float)
            assert np.max(np.abs(ad[i] - bracket) / unit) <= 4 * EPS, settings[i]


def _lengths(case: Case, i: int) -> tuple[float, ...]:
    """All length units for every angle where there are any; one in turn on the large spaces."""
    if set(case.units) == {"r"}:
        return (1.0,)
    lengths = (1e-9, 1.0, 1e3)
    return lengths if case.space.dim <= 6 else (lengths[i % 3],)
