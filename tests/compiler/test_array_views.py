"""Arrays that programs on scalars only read stay in memory: the values and derivatives are those of JAX."""

from __future__ import annotations

import functools

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.loops.simd_step_loop import LaneControl, SimdStepLoop
from polhode.compiler.scalars.read_only import read_only

X = np.linspace(0.0, 1.0, 2001)
Y, Z = np.sin(7 * X), np.cos(3 * X)
GRID = np.outer(Y, Z[:50])
TIMES = np.random.default_rng(0).uniform(-0.1, 1.1, 200)
ALIKE = np.linspace(1, 2, 21)
NUMBERS = np.random.default_rng(1).integers(-2100, 2300, 200)


def _hand_on(places, k):
    table = jnp.asarray(GRID[:, :4])
    return jax.lax.scan(lambda s, at: (s + 1.0, jax.lax.dynamic_slice(table, (at + k, 0), (1, 4))), 0.0, places)


def _pairs(t, a, b, c, d):
    return jax.vmap(lambda x, y: jnp.interp(t, x, y))(jnp.stack([a, b]), jnp.stack([c, d]))


def _rows(t, a, b, c, d):
    return jax.lax.scan(lambda s, xy: (s + jnp.interp(t, *xy), s), 0.0, (jnp.stack([a, b]), jnp.stack([c, d])))


LOOK_UPS = {
    "interpolation": (lambda c, t: jnp.interp(t, *c), (X, Y), TIMES),
    "constants": (lambda c, t: jnp.interp(t, X, Y) + c, np.float64(1.0), TIMES),
    "constants of equal bytes": (
        lambda c, k: jnp.asarray(ALIKE.view(np.int32))[k] + jnp.asarray(ALIKE)[k] + c,
        np.float64(1.0),
        NUMBERS,
    ),
    "two places": (lambda c, k: c[k, k // 50], GRID, NUMBERS),
    "rows": (lambda c, k: c[k], GRID[:, :4].copy(), NUMBERS),
    "outside": (lambda c, k: c.at[k].get(mode="fill", fill_value=7.0), Y, NUMBERS),
    "truth": (lambda c, k: c[k], Y > 0, NUMBERS),
    "whole numbers": (lambda c, k: c[c[k]], np.arange(40)[::-1].copy(), NUMBERS),
    "stacked": (lambda c, t: _pairs(t, *c), (X, 2 * X, Y, Z), TIMES),
    "rows of a loop": (lambda c, t: _rows(t, *c), (X, 2 * X, Y, Z), TIMES),
    "rows handed on": (lambda c, k: _hand_on(c, k)[1][k % 5], np.arange(5), NUMBERS),
    "one of several": (lambda c, t: jnp.stack(c)[1][jnp.int64(100 * t)], (Y, Z), TIMES),
    "without derivatives": (lambda c, k: jax.lax.stop_gradient(c)[k], Y, NUMBERS),
    "elements, too": (lambda c, k: c[k] + jnp.sum(c), np.arange(30.0), NUMBERS),
}
ROUNDED = ("interpolation", "constants", "stacked", "rows of a loop")
EPS = np.finfo(float).eps


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", LOOK_UPS)
def test_look_ups_are_those_of_jax(name):
    function, consts, rows = LOOK_UPS[name]
    program = RowMap.of(function, consts, rows[0])
    arrays = jax.tree.map(jnp.asarray, consts)
    expected = jax.vmap(lambda row: function(arrays, row))(jnp.asarray(rows))
    # XLA, with most effort, rounds products and sums of interpolation at once.
    close = functools.partial(np.testing.assert_allclose, rtol=0, atol=EPS if name in ROUNDED else 0)
    jax.tree.map(close, program(consts, rows), expected)
    assert program.code.report.operations < 300


def test_only_arrays_of_which_elements_are_read_stay_in_memory():
    def function(x, y, z, k):
        return jnp.interp(y[k], x, x), 2 * z, y[3:5]

    assert read_only(jax.make_jaxpr(function)(X, Y, Z, 3).jaxpr) == [True, True, False, False]
    rows = jax.make_jaxpr(lambda x, k: (2 * x[k], x[k][k], x[k + 1].T @ x[k]))(GRID[:, :7], 3)
    assert read_only(rows.jaxpr) == [True, False]
    joined = jax.make_jaxpr(lambda x, y, k: jnp.concatenate([x, y + 1])[k])(X, Y, 3)
    assert read_only(joined.jaxpr) == [False, False, False]
    stopped = jax.make_jaxpr(lambda x, k: jax.lax.stop_gradient(x)[k])(X, 3)
    assert read_only(stopped.jaxpr) == [True, False]
    returned = jax.make_jaxpr(lambda x, k: (x, x[k]))(X, 3)
    assert read_only(returned.jaxpr) == [False, False]


@pytest.mark.exhaustive
def test_derivatives_of_look_ups_in_constants_are_those_of_jax():
    """At the top level and in loops, of which look-ups are parts, too."""

    def function(c, t):
        return c * jnp.interp(t, X, Y) * jax.lax.scan(lambda s, x: (s + jnp.interp(s * x, X, Z), s), t, Y[-9:])[0]

    reverse, times = RowMap.vjp(function, lambda c, t: (c, t), np.float64(3.0), TIMES[0], 0.0), TIMES[:20]
    expected = jax.vmap(lambda t: jax.grad(function, (0, 1))(3.0, t))(times)
    np.testing.assert_allclose(reverse(np.float64(3.0), (times, np.ones(20))), expected, rtol=1e-12, atol=1e-13)
    forward = RowMap.jvp(function, lambda c, t: t, np.float64(3.0), TIMES[0])
    np.testing.assert_allclose(forward(np.float64(3.0), (times, np.ones(20))), expected[1], rtol=1e-12, atol=1e-13)


@pytest.mark.parametrize("wrt", ["time", "values"])
def test_derivatives_are_those_of_jax(wrt):
    x, y = X[:40], Y[:40]
    function = lambda c, t: jnp.interp(t, *c) ** 2  # noqa: E731
    of = (lambda c, t: t) if wrt == "time" else (lambda c, t: c[1])
    reverse, times = RowMap.vjp(function, of, (x, y), TIMES[0], 0.0), TIMES[:20] * X[39]
    gradient = jax.grad(lambda t: jnp.interp(t, x, y) ** 2)
    if wrt == "values":
        gradient = lambda t: jax.grad(lambda y: jnp.interp(t, x, y) ** 2)(y)  # noqa: E731
    expected = jax.vmap(gradient)(times)
    np.testing.assert_allclose(reverse((x, y), (times, np.ones(20))), expected, rtol=1e-13, atol=1e-14)
    if wrt == "time":
        forward = RowMap.jvp(function, of, (x, y), TIMES[0])
        np.testing.assert_allclose(forward((x, y), (times, np.ones(20))), expected, rtol=1e-13)


def test_every_lane_reads_its_own_array():
    def more(args, p, c):
        return p[0] < c.n_limit

    def advance(args, p, c):
        n, t, total = p
        p = n + 1, t + args[1], total + jnp.interp(t, args[0], args[2]) + jnp.interp(t, X, Y)
        return p, p[0] % c.every == 0, p[2]

    def args_of(k):
        return X**k, np.float64(0.013 * k), np.cos(k * X)

    start = (np.int64(0), np.float64(0.0), np.float64(0.0))
    loop = SimdStepLoop.of(more, advance, args_of(1), start, np.float64(0.0))
    runs = 7
    args = loop.interleave(np.array([loop.args.pack(args_of(k + 1)) for k in range(runs)]))
    progress = loop.interleave(np.array([loop.progress.pack(start)] * runs))
    rows = np.empty((len(args) * loop.width, 60, 1), np.int64)
    control = LaneControl(n_limit=60, every=1, last=True, n_saved=0, targets=0, capacity=60)
    assert loop.advance(args, progress, [control] * runs, np.zeros(1), rows).tolist() == [60] * runs
    for k in range(runs):
        x, h, y = args_of(k + 1)
        t = np.concatenate([[0.0], np.cumsum(np.full(59, h))])
        expected = np.cumsum(np.interp(t, x, y) + np.interp(t, X, Y))
        np.testing.assert_allclose(rows[k, :, 0].view(float), expected, rtol=1e-12)
