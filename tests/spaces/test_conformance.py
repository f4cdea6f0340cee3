"""What every space must do, on every space of the table."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from space_table import ANGLES, CASES, EPS, Case, ambient, distance, elements, every, points

from polhode.spaces import AbstractGroup, AbstractSpace

pytestmark = pytest.mark.sampled(16)

ALL = pytest.mark.parametrize("case", CASES.values(), ids=CASES.keys())


@pytest.mark.sampled(6)
@ALL
def test_shapes_and_scales(case: Case):
    space = case.space
    assert sum(space.blocks) == space.dim
    q, v = space.random(jax.random.key(0)), jnp.asarray(case.element(np.random.default_rng(0), 1.0))
    for method, arguments in [(space.rate, (v, v)), (space.bracket, (v, v)), (space.difference, (q, q))]:
        assert jax.eval_shape(method, *arguments).shape == (space.dim,)
    like = jax.tree.map(jnp.shape, space.origin())
    assert jax.tree.map(jnp.shape, jax.eval_shape(space.move, q, v)) == like
    assert jax.tree.map(jnp.shape, q) == like
    scale = np.asarray(space.scale(q))
    assert scale.shape == (len(space.blocks),)
    assert np.all(scale > 0)
    rotations = [unit == "r" for unit in case.units]
    np.testing.assert_array_equal(scale[rotations], 1.0)


@pytest.mark.sampled(8)
@ALL
def test_points_lie_on_the_space(case: Case):
    space = case.space
    assert float(space.residual(space.origin())) == 0
    q = points(case, 1)
    assert float(jnp.max(every(space.residual, q))) <= 8 * EPS


@pytest.mark.sampled(8)
@ALL
def test_project(case: Case):
    space = case.space
    q = points(case, 2)
    near = jax.tree.map(lambda x: x + 1e-4 * jnp.cos(jnp.arange(x.size, dtype=float)).reshape(x.shape), q)

    def measure(q: Any, near: Any) -> tuple[jax.Array, ...]:
        on = space.project(near)
        return space.residual(on), distance(on, near), distance(space.project(q), q)

    residual, moved, kept = every(measure, q, near)
    assert float(jnp.max(residual)) <= 8 * EPS
    assert float(jnp.max(moved)) <= 1e-3
    assert float(jnp.max(kept)) <= 16 * EPS


@pytest.mark.exhaustive
@pytest.mark.sampled(16)
@ALL
def test_move_starts_at_the_point_with_the_given_velocity(case: Case):
    space = case.space
    zero, v = jnp.zeros(space.dim), jnp.asarray(case.element(np.random.default_rng(3), 1.0))
    q = space.random(jax.random.key(3))
    assert float(distance(space.move(q, zero), q)) <= 4 * EPS
    np.testing.assert_allclose(space.rate(zero, v), v, rtol=4 * EPS)


@pytest.mark.sampled(16)
@ALL
def test_rate_is_the_inverse_differential_of_move(case: Case):
    """With θ̇ = rate(θ, v), the velocity of move(q, θ) is that of move(move(q, θ), εv), in ambient coordinates."""
    space = case.space

    def defect(q: Any, theta: jax.Array, v: jax.Array) -> jax.Array:
        here, along = jax.jvp(lambda x: space.move(q, x), (theta,), (space.rate(theta, v),))
        started = jax.jvp(lambda x: space.move(here, x), (jnp.zeros(space.dim),), (v,))[1]
        return distance(along, started)

    angles = (0.0, 1e-12, 1e-7, 1e-3, 0.1, 0.7, 1.4, 1.5)
    errors = every(defect, points(case, 4), elements(case, 4, angles), elements(case, 5))
    assert float(jnp.max(errors)) <= 200 * EPS, errors


@pytest.mark.sampled(16)
@ALL
def test_bracket_gives_the_series_of_rate(case: Case):
    """rate(θ, v) = v - ½[θ, v] + ¹⁄₁₂[θ, [θ, v]] + O(θ⁴)."""
    space = case.space
    theta, v = (jnp.asarray(case.element(np.random.default_rng(seed), 1.0)) for seed in (6, 7))

    def first(s: jax.Array) -> jax.Array:
        return jax.jvp(lambda x: space.rate(x * theta, v), (s,), (1.0,))[1]

    slope, curvature = jax.jvp(first, (0.0,), (1.0,))
    once = space.bracket(theta, v)
    if case.series >= 1:
        np.testing.assert_allclose(slope, -once / 2, atol=16 * EPS)
    if case.series >= 2:
        np.testing.assert_allclose(curvature, space.bracket(theta, once) / 6, atol=64 * EPS)
    np.testing.assert_allclose(space.bracket(v, theta), -once, atol=4 * EPS)


@pytest.mark.sampled(8)
@ALL
def test_difference_undoes_move(case: Case):
    space = case.space

    def measure(q: Any, theta: jax.Array) -> tuple[jax.Array, ...]:
        there = space.move(q, theta)
        back = space.difference(q, there)
        again = space.move(q, back)
        same = jnp.minimum(distance(again, there), distance(_antipodes(again, there), there))
        return same, jnp.max(jnp.abs(back - theta)), _block_norms(case, back) - _block_norms(case, theta)

    same, off, longer = every(measure, points(case, 8), elements(case, 8, ANGLES))
    assert float(jnp.max(same)) <= 100 * EPS, same
    if isinstance(space, AbstractGroup):
        assert float(jnp.max(off)) <= 100 * EPS, off
    else:
        rotations = np.array([unit == "r" for unit in case.units])
        assert float(jnp.max(longer[:, rotations])) <= 10 * EPS, longer


def _antipodes(q: Any, like: Any) -> Any:
    """Quaternions and rotation vectors have two names for a rotation: flip those with the other sign."""

    def flip(x: jax.Array, y: jax.Array) -> jax.Array:
        if x.shape[-1] != 4:
            return x
        return jnp.where(jnp.sum(x * y, axis=-1, keepdims=True) < 0, -x, x)

    return jax.tree.map(flip, q, like)


def _block_norms(case: Case, v: jax.Array) -> jax.Array:
    ends = np.cumsum(case.space.blocks)
    return jnp.stack([jnp.linalg.norm(v[e - n : e]) for n, e in zip(case.space.blocks, ends, strict=True)])


@pytest.mark.sampled(8)
@ALL
def test_difference_of_a_point_with_itself_vanishes(case: Case):
    q = points(case, 9)
    largest = max(1.0, *(float(jnp.max(jnp.abs(x))) for x in jax.tree.leaves(q)))
    assert float(jnp.max(jnp.abs(every(case.space.difference, q, q)))) <= 8 * EPS * largest


@ALL
def test_difference_of_close_points_is_relatively_accurate(case: Case):
    """At increments of 1e-7 the error stays at the round-off of the points' coordinates, not at its square root."""
    space = case.space
    theta = 1e-7 * elements(case, 10, (1.0,) * 8)

    def error(q: Any, theta: jax.Array) -> jax.Array:
        there = space.move(q, theta)
        largest = jnp.maximum(1.0, jnp.max(jnp.abs(ambient(there))))
        return distance(space.move(q, space.difference(q, there)), there) / largest

    assert float(jnp.max(every(error, points(case, 10), theta))) <= 10 * EPS


@ALL
def test_sizes_do_not_depend_on_the_inertial_frame(case: Case):
    """Turning the frame changes neither the block norms of `difference` nor `scale`."""
    space = case.space
    generator = np.random.default_rng(11)
    turns = jnp.array([case.rotation(generator, angle) for angle in np.linspace(0.3, 3, len(ANGLES))])

    def turn(q: Any, sigma: jax.Array) -> Any:
        if isinstance(space, AbstractGroup):
            return space.compose(space.exp(sigma), q)
        return space.move(q, sigma)

    def measure(q: Any, theta: jax.Array, sigma: jax.Array) -> tuple[jax.Array, jax.Array]:
        there = space.move(q, theta)
        before = _block_norms(case, space.difference(q, there))
        after = _block_norms(case, space.difference(turn(q, sigma), turn(there, sigma)))
        return jnp.max(jnp.abs(after - before)), jnp.max(jnp.abs(space.scale(turn(q, sigma)) - space.scale(q)))

    sizes, scales = every(measure, points(case, 11), elements(case, 11), turns)
    assert float(jnp.max(sizes)) <= 200 * EPS, sizes
    assert float(jnp.max(scales)) <= 100 * EPS, scales


@pytest.mark.sampled(16)
@ALL
def test_a_hundred_moves_stay_on_the_space(case: Case):
    space = case.space
    theta = elements(case, 12, (0.5,) * 100)
    q0 = space.random(jax.random.key(12))

    @jax.jit
    def travel(q: Any) -> Any:
        return jax.lax.scan(lambda x, v: (space.move(x, v), None), q, theta)[0]

    q1 = travel(q0)
    assert float(space.residual(q1)) <= 100 * EPS
    before, after = space.invariants(q0), space.invariants(q1)
    for name, value in before.items():
        unit = 1 + float(jnp.max(jnp.abs(ambient(q1)))) ** 2
        assert float(jnp.max(jnp.abs(after[name] - value))) <= 200 * EPS * unit, name


@pytest.mark.sampled(16)
@ALL
def test_derivatives_are_finite_and_agree(case: Case):
    """Forward, reverse and second derivatives of move, rate and difference, at zero and away from it."""
    space = case.space
    q = space.random(jax.random.key(13))
    theta, v = elements(case, 13, (1.0,) * 8), elements(case, 14, (1.0,) * 8)
    theta = jnp.array([0.0, 1e-20, 1e-12, 1e-9, 1e-3, 0.1, 0.5, 1.0])[:, None] * theta

    def value(x: jax.Array) -> jax.Array:
        there = space.move(q, x)
        parts = jnp.concatenate((ambient(there), space.rate(x, v[0]), space.difference(q, there)))
        return jnp.sum(jnp.sin(parts + jnp.arange(len(parts))))

    def measure(x: jax.Array, v: jax.Array) -> tuple[jax.Array, ...]:
        (_, gradient), (forward, second) = jax.jvp(jax.value_and_grad(value), (x,), (v,))
        central = (value(x + 1e-5 * v) - value(x - 1e-5 * v)) / 2e-5
        return jnp.abs(forward - gradient @ v), jnp.abs(forward - central), second

    reverse, central, second = every(measure, theta, v)
    assert float(jnp.max(reverse)) <= 1e-13
    assert float(jnp.max(central)) <= 1e-8
    assert bool(jnp.all(jnp.isfinite(second)))


@pytest.mark.exhaustive
@ALL
def test_a_batch_is_a_loop(case: Case):
    space: AbstractSpace = case.space

    def run(q: Any, theta: jax.Array) -> jax.Array:
        there = space.move(q, theta)
        return jnp.concatenate((ambient(there), space.rate(theta, theta[::-1]), space.difference(q, there)))

    q, theta = points(case, 15), elements(case, 15)
    batch = every(run, q, theta)
    for i in (0, 6):
        single = run(jax.tree.map(lambda x, i=i: x[i], q), theta[i])
        np.testing.assert_allclose(batch[i], single, atol=16 * EPS)
