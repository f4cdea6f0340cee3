"""What is called again and again computes what XLA computes: as machine code, by rows, and where neither can be."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from polhode.compiler import native_jit, size_limits
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.numpy.interpreter import Interpreter
from polhode.compiler.primitives.row_loop import map_rows

TURNED = np.array([1, 0])


def pulled(stiffness, x, rest):
    """Springs between neighbours in a loop over these, and what they add up to."""

    def one(k, pair, rest):
        after, before = pair[TURNED]
        return k * (after - before - rest)

    force = map_rows(one, stiffness, jnp.stack((x[:-1], x[1:]), axis=1), rest)
    return {"force": jnp.zeros_like(x).at[:-1].add(force).at[1:].add(-force), "positive": force > 0}


def looked_up(stiffness, x, rest):
    """In a table that is too long for machine code, where only the data give."""
    return stiffness * jnp.arange(5000.0)[jnp.argmax(x)] + rest


def of_a_library(stiffness, x, rest):
    """What neither scalars nor loops over arrays have."""
    return stiffness * jnp.linalg.eigvalsh(jnp.outer(x, x))[3] + rest


@pytest.fixture
def made(monkeypatch):
    """The programs that were made since the test began."""
    programs, make = [], native_jit._native

    def watched(inputs, rest):
        found = make(inputs, rest)
        programs.append(found[0])
        return found

    monkeypatch.setattr(native_jit, "_native", watched)
    return programs


@pytest.mark.parametrize(
    ("function", "most", "kind"),
    [(pulled, 1000, RowMap), (pulled, 6, Interpreter), (looked_up, 1000, RowMap), (of_a_library, 1000, type(None))],
)
def test_all_kinds_compute_the_same(function, most, kind, made, monkeypatch):
    monkeypatch.setattr(size_limits, "NUMBERS", most)
    call = native_jit.native_jit(function, jnp.asarray(3.0))
    for x in (np.array([0.0, 1.0, 2.5, 3.0]), np.array([0.3, -1.0, 2.0, 7.0])):
        args = jnp.asarray(x), jnp.asarray([1.0, 2.0, 0.5])
        found, expected = call(*args), jax.jit(function)(3.0, *args)
        for a, b in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
            assert a.dtype == b.dtype
            np.testing.assert_allclose(a, b, rtol=1e-15)
    assert [type(program) for program in made] == [kind]
    if kind is Interpreter:
        assert made[0].is_portable
        assert len(list(native_jit.codes(made[0]))) == 1


@pytest.mark.exhaustive
def test_inside_transformations_functions_are_called_as_they_are(made):
    x, rest = jnp.array([0.0, 1.0, 2.5]), jnp.ones(2)
    found = jax.grad(lambda k: jnp.sum(native_jit.native_jit(pulled, k)(x, rest)["force"] * x))(2.0)
    # Forces are k times x'' and its ends: their work along x is -k (0 · 1 + 0.5 · 1.5).
    np.testing.assert_allclose(found, -0.75, rtol=1e-15)
    assert made == []
