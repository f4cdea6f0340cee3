"""What a trace leaves to the back ends comes to the same in each of them."""

from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.numpy.interpreter import from_jaxpr
from polhode.compiler.primitives.backend_query import is_differentiated, lapack_or, no_lapack
from polhode.compiler.primitives.implicit_solution import SOLUTION
from polhode.compiler.primitives.lowering import ARRAYS, DIFFERENTIABLE, MACHINE_CODE, lower
from polhode.compiler.primitives.row_loop import map_rows, scan_rows
from polhode.compiler.xla.entry_points import scalarise
from polhode.integrators.implicit._implicit_differentiation import with_implicit_derivative


class Solved(NamedTuple):
    x: jax.Array
    place: jax.Array


A = np.random.default_rng(3).normal(size=(3, 3)) + 4 * np.eye(3)
X = np.random.default_rng(4).normal(size=(5, 3))


def all_rows(a, x):
    return map_rows(lambda a, row: jnp.sin(a @ row) * row[0], a, x)


def sums(a, x):
    last, partial = scan_rows(lambda a, carry, row: (carry + a @ row, carry * row), a, jnp.zeros(3), x, reverse=True)
    return last, partial


def nested(a, x):
    return map_rows(lambda a, row: map_rows(lambda s, entry: s[0] * entry, row, a), a, x)


def by_loops(a, x):
    """The same three in NumPy."""
    rows = np.stack([np.sin(a @ row) * row[0] for row in x])
    carry, partial = np.zeros(3), []
    for row in x[::-1]:
        partial.append(carry * row)
        carry = carry + a @ row
    return rows, (carry, np.stack(partial[::-1])), np.stack([row[0] * a for row in x])


def together(a, x):
    return all_rows(a, x), sums(a, x), nested(a, x)


def natively(a, x):
    stacked = jax.tree.map(lambda y: y[None], x)
    return jax.tree.map(lambda y: y[0], RowMap.of(together, a, jax.tree.map(np.asarray, x))(a, stacked))


def by_numpy(a, x):
    closed, shape = jax.make_jaxpr(together, return_shape=True)(a, x)
    return jax.tree.unflatten(jax.tree.structure(shape), from_jaxpr(closed)([a, x]))


WAYS = {
    "as it is": together,
    "by XLA": jax.jit(together),
    "in XLA's loops": jax.jit(scalarise(together, 0)),
    "on XLA's scalars": jax.jit(scalarise(together, 1e9)),
    "by NumPy": by_numpy,
    "machine code": natively,
}


@pytest.mark.sampled(2)
@pytest.mark.parametrize("way", WAYS)
def test_rows_are_the_same_in_all_back_ends(way):
    for found, expected in zip(jax.tree.leaves(WAYS[way](A, X)), jax.tree.leaves(by_loops(A, X)), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-14, atol=1e-14)


@pytest.mark.exhaustive
def test_rows_have_derivatives_and_batches():
    def plain(a, x):
        return jnp.sum(jnp.stack([jnp.sin(a @ row) * row[0] for row in x]) ** 2)

    def of_rows(a, x):
        return jnp.sum(all_rows(a, x) ** 2)

    for transform in (jax.grad, jax.jacfwd):
        np.testing.assert_allclose(transform(of_rows)(A, X), transform(plain)(A, X), rtol=1e-12)
    many = np.stack([A, 2 * A])
    for axes in ((0, None), (0, 0)):
        x = X if axes[1] is None else np.stack([X, -X])
        expected = jax.vmap(plain, in_axes=axes)(many, x)
        np.testing.assert_allclose(jax.vmap(of_rows, in_axes=axes)(many, x), expected, rtol=1e-12)


def answer(question):
    return lambda x: jax.lax.cond(question(), lambda x: x + 1, lambda x: x - 1, x)


def answer_traced_late(x):
    return lapack_or(lambda x: x - 1, lambda x: x + 1, x, x)


@pytest.mark.sampled(3)
@pytest.mark.parametrize(
    ("answer", "yes"),
    [
        (answer(no_lapack), (False, True, True)),
        (answer(is_differentiated), (False, False, True)),
        (answer_traced_late, (False, True, True)),
    ],
)
def test_each_back_end_answers_for_itself(answer, yes):
    for target, expected in zip((ARRAYS, MACHINE_CODE, DIFFERENTIABLE), yes, strict=True):
        closed = lower(jax.make_jaxpr(lambda x: jax.lax.fori_loop(0, 2, lambda _, x: answer(x), x))(1.0), target)
        assert core.jaxpr_as_fun(closed)(1.0) == [3.0 if expected else -1.0]
        assert not any(open_ in str(closed) for open_ in ("cond[", "ways[", "custom_jvp"))
    # JAX itself answers no, whatever it does.
    assert answer(2.0) == jax.jit(answer)(2.0) == 1
    assert jax.jit(jax.grad(answer))(2.0) == jax.grad(answer)(2.0) == jax.jacfwd(answer)(2.0) == 1
    np.testing.assert_array_equal(jax.jit(jax.vmap(answer))(np.arange(3.0)), [-1, 0, 1])


def test_only_the_way_that_is_taken_is_traced():
    traced = []

    def way(name):
        return lambda x, pair: traced.append(name) or (pair[0] * x, pair[1])

    closed = jax.make_jaxpr(lambda x: lapack_or(way("library"), way("own"), (x, x), x, (x, 2 * x)))(3.0)
    assert traced == []
    assert core.jaxpr_as_fun(lower(closed, MACHINE_CODE))(3.0) == [9.0, 6.0]
    assert core.jaxpr_as_fun(lower(closed, ARRAYS))(3.0) == [9.0, 6.0]
    assert traced == ["own", "library"]


@pytest.mark.exhaustive
def test_searches_are_marked_only_where_the_record_is_derived():
    def root(a):
        """The square root, by Newton's method."""

        def search(x, _):
            x = jax.lax.fori_loop(0, 40, lambda _, x: (x + a / x) / 2, x)
            return Solved(x, x)

        return with_implicit_derivative(
            search, lambda x: (x * x - a, x), lambda x, b: b / (2 * x), jnp.ones(()), None
        ).x

    closed = jax.make_jaxpr(root)(2.0)
    assert [SOLUTION in str(lower(closed, to)) for to in (ARRAYS, MACHINE_CODE, DIFFERENTIABLE)] == [0, 0, 1]
    assert "custom_jvp" not in str(lower(closed, DIFFERENTIABLE))
    np.testing.assert_allclose(RowMap.of(lambda _, a: root(a), None, np.float64(2.0))(None, np.array([2.0])), 2**0.5)
    for way in (jax.grad(root), jax.jit(jax.grad(root)), jax.jacfwd(root)):
        np.testing.assert_allclose(way(2.0), 0.5 / 2**0.5, rtol=1e-14)
    back = RowMap.vjp(lambda _, a: root(a), lambda _, a: a, None, np.float64(2.0), np.float64(1.0))
    np.testing.assert_allclose(back(None, (np.array([2.0]), np.array([1.0]))), 0.5 / 2**0.5, rtol=1e-14)


def test_what_leaves_nothing_open_stays_the_same_object():
    closed = jax.make_jaxpr(lambda a, v: jax.lax.while_loop(lambda v: v[0] < 1, lambda v: a @ v, v))(A, X[0])
    assert lower(closed, MACHINE_CODE) is closed
