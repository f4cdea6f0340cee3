"""Forward- and reverse-mode derivatives of compiled programs against those of JAX."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler import size_limits
from polhode.compiler.autodiff import partials
from polhode.compiler.differentiation import DifferentiableFunction
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.primitives.row_loop import map_rows, scan_rows
from polhode.integrators.implicit._implicit_differentiation import with_implicit_derivative

A, B = jnp.array([0.3, 0.7, 0.9]), jnp.array([0.2, -0.5])


def directions(tree):
    random = np.random.default_rng(3)
    return jax.tree.map(lambda x: random.normal(size=np.shape(x)), tree)


def as_rows(tree):
    return jax.tree.map(lambda x: np.asarray(x)[None], tree)


def everything(a, b):
    """The arguments with respect to which derivatives are taken."""
    return a, b


def along(function, a, b):
    """The Jacobian-vector product, by machine code and by JAX."""
    way = directions((a, b))
    result = RowMap.jvp(function, everything, a, b)(a, (as_rows(b), as_rows(way)))
    return jax.tree.map(lambda x: x[0], result), jax.jvp(jax.jit(function), (a, b), way)[1]


def back(function, a, b):
    """The vector-Jacobian product, by machine code and by JAX."""
    out, pull = jax.vjp(jax.jit(function), a, b)
    weights = directions(out)
    result = RowMap.vjp(function, everything, a, b, out)(a, (as_rows(b), as_rows(weights)))
    return jax.tree.map(lambda x: x[0], result), pull(jax.tree.map(jnp.asarray, weights))


def close(pair):
    jax.tree.map(lambda x, y: np.testing.assert_allclose(x, y, rtol=1e-12, atol=1e-14), *pair)


def elementary(a, b):
    x, y = a, b[0]
    one = (jnp.sin, jnp.cos, jnp.tan, jnp.arcsin, jnp.arccos, jnp.arctan, jnp.sinh, jnp.cosh, jnp.tanh, jnp.arcsinh)
    two = (jnp.arctanh, jnp.exp, jnp.exp2, jnp.expm1, jnp.log, jnp.log1p, jnp.sqrt, jax.lax.rsqrt, jnp.cbrt, jnp.abs)
    more = (jax.nn.sigmoid, jax.scipy.special.erf, jax.scipy.special.erfc, jnp.square, jnp.floor, jnp.sign)
    of_two = (jnp.arctan2, jnp.maximum, jnp.minimum, jnp.divide, jnp.subtract, jnp.fmod)
    values = [f(x) for f in (*one, *two, *more)] + [f(x, y) for f in of_two] + [f(y, x) for f in of_two]
    powers = [x**3, x**-2, x**y, jnp.arccosh(1 + x), jnp.clip(x, 0.5, y + 0.6), jnp.clip(x, y + 0.3, 0.8)]
    return jnp.stack([*values, *powers])


def of_rows(a, b):
    """A loop over rows with a carry, input rows, closed-over values and output rows."""

    def row(carry, value):
        current = carry * jnp.cos(value) + a[0] * b[1]
        return jnp.where(current > 0.3, current, current * current), current * a[2]

    return jax.lax.scan(row, b, jnp.stack([a[:2], 2 * a[1:], a[:2] + b[0]]), reverse=True)


def of_rows_in_rows(a, b):
    return jax.lax.scan(lambda c, x: (jnp.sum(of_rows(a * c, b + x)[1]), c * x), a[0], a)


def of_branches(a, b):
    first = jax.lax.cond(a[0] > b[0], lambda: jnp.exp(a) * b[0], lambda: a * b[1])
    return first + jax.lax.switch(
        (3 * a[1]).astype(int), [lambda: a * b[1], lambda: jnp.tanh(a), lambda: jnp.log(a) * first]
    )


@jax.custom_jvp
def with_custom_rule(x, y):
    return jnp.sin(x) * y


@with_custom_rule.defjvp
def _(primals, tangents):
    (x, y), (dx, dy) = primals, tangents
    # Three times the derivative of the first, so that it can't be mistaken for that of the body.
    return with_custom_rule(x, y), 3 * jnp.cos(x) * dx * y + jnp.sin(x) * dy


def with_rules(a, b):
    return with_custom_rule(a, b[0]) * jnp.sinc(a) * jnp.sinc(0 * a) * jax.nn.relu(a - 0.5)


class SearchResult(NamedTuple):
    x: Any
    place: Any
    count: Any


def implicit_solution(a, b):
    """An implicit solution; its derivative may not depend on the iteration, nor on the approximate inverse."""

    def equation(x):
        place = jnp.sin(x) * a
        return (x + 0.3 * place - b[0],), place

    def precondition(x, parts):
        return parts[0] / (1 + 0.27 * jnp.cos(x) * a)

    def search(x, _):
        def refine(loop):
            x, count = loop
            return x - 0.9 * precondition(x, equation(x)[0]), count + 1

        x, count = jax.lax.while_loop(lambda loop: loop[1] < 50, refine, (x, 0))
        return SearchResult(x, equation(x)[1], count)

    result = with_implicit_derivative(search, equation, precondition, jnp.zeros(3), ())
    return result.x * a, result.place * b[1]


def of_rows_of_a_system(a, b):
    """Independent rows, and rows with a carry; closed-over values are shared."""
    tables = jnp.outer(jnp.arange(6.0), a), jnp.stack([a, b[0] * a] * 3)
    rows = map_rows(lambda shared, x, y: jnp.cross(x, y) * jnp.sin(shared), b[1], *tables)
    return scan_rows(lambda shared, c, x: (c * shared + x @ a, c * x), b[0], b[1], rows, reverse=True)


def of_parts(a, b):
    """Slices, strides and data-dependent indices."""
    long = jnp.concatenate([a, b, a * b[0], b])
    at = (5 * a[1]).astype(int)
    part = jax.lax.dynamic_slice(long, (at,), (4,))
    updated = jax.lax.dynamic_update_slice(long, part * part, (at + 2,))
    return jax.lax.pad(long[1::3] * updated[:8:2][0], b[0], [(2, -1, 2)]), updated[at] * part, long.at[at].add(b[1])


def of_linear_equations(a, b):
    """Solutions whose matrix depends on the arguments; JAX's solvers hide it from derivatives."""
    matrix = jnp.array([[3.0, b[0], 0.2], [a[0], -2.0, b[1]], [0.5, a[2], 4.0]])
    symmetric = jnp.eye(3) + jnp.outer(a, a)
    factor = jax.scipy.linalg.cho_factor(symmetric)
    return (
        jnp.linalg.solve(matrix, a * b[0]),
        jnp.linalg.solve(matrix.T, jnp.stack([a, a * a], axis=1)),
        jnp.linalg.inv(matrix) * b[1],
        jax.scipy.linalg.cho_solve(factor, a),
        jnp.linalg.det(matrix),
    )


def of_whole_exponents(a, b):
    """Powers with a data-dependent integer exponent."""
    return a ** jnp.where(b[0] > 0, 3, 2), (1 + a) ** -(5 * a).astype(jnp.int32)


PROGRAMS = [
    *(elementary, of_rows, of_rows_in_rows, of_rows_of_a_system, of_parts, of_branches, with_rules, implicit_solution),
    of_whole_exponents,
]


@pytest.fixture(params=["scalars", "arrays"])
def way(request, monkeypatch):
    """Programs are compiled on scalars, or all on arrays as large ones are."""
    if request.param == "arrays":
        monkeypatch.setattr(size_limits, "ON_ARRAYS", 0)
        monkeypatch.setattr(DifferentiableFunction, "_of_scalars", None)
    return request.param


@pytest.mark.sampled(18)
@pytest.mark.parametrize("function", PROGRAMS)
def test_derivatives_along_directions_are_those_of_jax(function, way):
    close(along(function, A, B))


@pytest.mark.sampled(6)
@pytest.mark.parametrize("function", PROGRAMS)
def test_transposed_derivatives_are_those_of_jax(function, way):
    close(back(function, A, B))


@pytest.mark.exhaustive
@pytest.mark.parametrize("derivative", [along, back])
def test_solutions_of_linear_equations_depend_on_their_matrix(derivative):
    close(derivative(of_linear_equations, A, B))


def test_a_wrong_partial_derivative_would_be_seen(monkeypatch):
    monkeypatch.setitem(partials._PARTIALS, "sin", lambda f, x, y, _: [y])
    for derivative in (along, back):
        with pytest.raises(AssertionError):
            close(derivative(lambda a, b: jnp.sin(a) * b[0], A, B))


def test_loops_of_unknown_length_have_derivatives_along_directions_only():
    def grow(a, b):
        return jax.lax.while_loop(lambda x: jnp.sum(x) < 100 * b[0], lambda x: x * a + x, a)

    close(along(grow, A, B))
    with pytest.raises(UnsupportedNativeOperation, match="unknown length"):
        RowMap.vjp(grow, everything, A, B, A)


def test_rules_that_only_go_back_have_derivatives_of_arrays_that_way():
    @jax.custom_vjp
    def function(x):
        return jnp.sin(x)

    function.defvjp(lambda x: (jnp.sin(x), x), lambda x, c: (3 * jnp.cos(x) * c,))
    close(back(lambda a, b: function(a) * b[0], A, B))
    with pytest.raises(UnsupportedNativeOperation, match="custom_vjp"):
        RowMap.jvp(lambda a, b: function(a) * b[0], everything, A, B)
