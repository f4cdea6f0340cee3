"""Machine code, NumPy and XLA compute the same."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from programs import PROGRAMS, A, V

import polhode as ph
from polhode.compiler import batched_function as stacked
from polhode.compiler.cache import program_cache
from polhode.compiler.llvm import jit
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.numpy.interpreter import from_jaxpr
from polhode.compiler.numpy_jit import numpy_jit
from polhode.simulation.loops import native

WITHOUT_RULES: set[str] = set()


def expected(name):
    return [np.asarray(x) for x in jax.tree.leaves(jax.jit(PROGRAMS[name])(A, V))]


def same(found, name):
    for x, y in zip(jax.tree.leaves(found), expected(name), strict=True):
        assert x.shape == y.shape
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x, y, rtol=1e-13, atol=1e-14)


@pytest.mark.sampled(26)
@pytest.mark.parametrize("name", PROGRAMS)
def test_numpy_evaluates_what_xla_compiles(name):
    same(from_jaxpr(jax.make_jaxpr(PROGRAMS[name])(A, V))([np.asarray(A), np.asarray(V)]), name)


@pytest.mark.sampled(2)
@pytest.mark.parametrize("name", PROGRAMS)
def test_machine_code_computes_what_xla_computes(name):
    def row(shared, v):
        return PROGRAMS[name](shared, v)

    if name in WITHOUT_RULES:
        with pytest.raises(UnsupportedNativeOperation):
            RowMap.of(row, A, V)
        return
    stacked = np.stack([-np.asarray(V), np.asarray(V)])
    same(jax.tree.map(lambda x: x[1], RowMap.of(row, A, V)(A, stacked)), name)


EDGES = np.array([0.0, -0.0, 1.0, -1.0, 0.5, -2.5, 3.5, 1e-320, 1e300, -1e300, np.inf, -np.inf, np.nan])

UNARY = {
    "sign": jnp.sign,
    "round": jnp.round,
    "away from zero": lambda x: jax.lax.round(x, jax.lax.RoundingMethod.AWAY_FROM_ZERO),
    "floor": jnp.floor,
    "ceil": jnp.ceil,
    "abs": jnp.abs,
    "sqrt": jnp.sqrt,
    "rsqrt": jax.lax.rsqrt,
    "cbrt": jnp.cbrt,
    "is finite": jnp.isfinite,
    "negative": jnp.negative,
    "whole powers": lambda x: (x**3, x**-2, x**7),
    "logistic": jax.nn.sigmoid,
    "erf": jax.scipy.special.erf,
    "exponentials": lambda x: (jnp.exp(x), jnp.expm1(x), jnp.log1p(x), jnp.log(x), jnp.exp2(x)),
    "angles": lambda x: (jnp.sin(x), jnp.cos(x), jnp.arctan(x), jnp.arcsin(x), jnp.arccos(x)),
    "hyperbolic": lambda x: (jnp.sinh(x), jnp.cosh(x), jnp.tanh(x), jnp.arcsinh(x)),
    "to truth": lambda x: (x.astype(bool), ~(x > 0), (x > 0) ^ (x < 1)),
    "to whole": lambda x: jnp.where(jnp.abs(x) < 1e15, x, 0.0).astype(jnp.int64),
}

BINARY = {
    "arithmetic": lambda x, y: (x + y, x - y, x * y, x / y),
    "products in sums": lambda x, y: (x * y + x, x - x * y, x * y - y),
    "order": lambda x, y: (x < y, x <= y, x == y, x != y, x >= y, x > y),
    "extremes": lambda x, y: (jnp.maximum(x, y), jnp.minimum(x, y), jnp.clip(x, -1.0, y)),
    "remainder": lambda x, y: (jax.lax.rem(x, y),),
    "angle": jnp.arctan2,
    "power": lambda x, y: jnp.abs(x) ** y,
}


def by_numpy(function, *x):
    """Independent of XLA, which takes the smallest numbers for zero."""
    with np.errstate(all="ignore"):
        return from_jaxpr(jax.make_jaxpr(function)(*x))(x)


@pytest.mark.parametrize("name", UNARY)
def test_functions_of_one_number_at_their_edges(name):
    function = RowMap.of(lambda _, x: UNARY[name](x), (), jnp.float64(0.0))
    for x, y in zip(jax.tree.leaves(function((), EDGES)), by_numpy(UNARY[name], EDGES), strict=True):
        np.testing.assert_allclose(x, y, rtol=1e-14, atol=1e-300)


@pytest.mark.parametrize("name", BINARY)
def test_functions_of_two_numbers_at_their_edges(name):
    x, y = (z.ravel() for z in np.meshgrid(EDGES, EDGES))
    function = RowMap.of(lambda _, row: BINARY[name](*row), (), (jnp.float64(0.0), jnp.float64(0.0)))
    for found, wanted in zip(jax.tree.leaves(function((), (x, y))), by_numpy(BINARY[name], x, y), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-14, atol=1e-300)


def test_whole_numbers_and_division_by_zero():
    def function(row):
        a, b = row
        powers = a**3, b**0, jnp.square(a)
        return (
            *powers,
            a // b,
            a % b,
            jax.lax.div(a, b),
            jax.lax.rem(a, b),
            jnp.maximum(a, b),
            abs(a),
            jnp.sign(a),
            -a,
            a * b,
        )

    a, b = (z.ravel() for z in np.meshgrid(np.array([-7, -1, 0, 3, 10]), np.array([-3, -1, 0, 2, 5])))
    native = RowMap.of(lambda _, row: function(row), (), (jnp.int64(0), jnp.int64(0)))
    for x, y in zip(native((), (a, b)), jax.jit(function)((a, b)), strict=True):
        np.testing.assert_array_equal(x, y)


def test_the_least_whole_number_is_divided_as_by_xla():
    """Its quotient by -1 is no number of this size: a processor would end the process."""

    def function(a, b):
        return jax.lax.div(a, b), jax.lax.rem(a, b)

    for dtype in (np.int64, np.int32):
        least = np.iinfo(dtype).min
        a, b = np.array([least, least, least, -7, 7, least], dtype), np.array([-1, 3, 0, -1, -2, least], dtype)
        expected = jax.jit(function)(a, b)
        native = RowMap.of(lambda _, row: function(*row), (), (a[0], b[0]))((), (a, b))
        with np.errstate(all="ignore"):
            by_numpy = from_jaxpr(jax.make_jaxpr(function)(a, b))([a, b])
        np.testing.assert_array_equal(native, expected)
        np.testing.assert_array_equal(by_numpy, expected)


def test_whole_numbers_without_sign_are_divided_as_by_xla():
    a, b = np.array([7, 9, 5], np.uint32), np.array([2, 0, 9], np.uint32)
    (found,) = from_jaxpr(jax.make_jaxpr(jax.lax.div)(a, b))([a, b])
    np.testing.assert_array_equal(found, jax.jit(jax.lax.div)(a, b))


def test_a_product_in_a_sum_is_rounded_as_on_every_processor():
    function = RowMap.of(lambda _, x: x * x - 1.0, (), jnp.float64(0.0))
    x = 1 + 2.0**-30
    # Exactly 2^-29 + 2^-60; the last term is lost where the product is rounded.
    assert function((), np.array([x]))[0] == 2.0**-29


def test_loops_over_rows_carry_and_return_rows():
    def program(shared, v):
        def body(carry, row):
            k, x = row
            return (carry[0] + x * shared[0, 0], carry[1] + k), (carry[0][:, None] * jnp.eye(3), x, k)

        rows = jnp.arange(5), jnp.outer(jnp.arange(5.0), v)
        start = jnp.zeros(3), jnp.zeros((), jnp.int64)
        return jax.lax.scan(body, start, rows), jax.lax.scan(body, start, rows, reverse=True)

    found = RowMap.of(program, A, V)(A, V[None])
    for x, y in zip(jax.tree.leaves(found), jax.tree.leaves(jax.jit(program)(A, V)), strict=True):
        np.testing.assert_allclose(x[0], y, rtol=1e-14)


def test_what_a_user_prints_is_printed(capfd):
    def rate(t, y):
        jax.debug.print("at {}", t)
        return -y

    ph.simulate(ph.VectorField(ph.spaces.Rn(1), rate), "lie-euler", h=0.25, t1=1.0, state0=np.ones(1))
    jax.effects_barrier()
    printed = capfd.readouterr().out
    assert all(f"at {t}" in printed for t in (0.25, 0.5, 0.75))


def test_scans_of_no_rows_leave_what_they_begin_with():
    mapping = RowMap.of(lambda _, v: jax.lax.scan(lambda c, x: (c + x, c), v, jnp.zeros((0, 3))), (), V)
    end, rows = mapping((), np.asarray(V)[None])
    np.testing.assert_array_equal(end[0], V)
    assert rows.shape == (1, 0, 3)


@pytest.mark.exhaustive
def test_interpreted_functions_are_those_that_xla_compiles_inside_transformations():
    def function(a, v):
        return jnp.linalg.solve(a, jnp.sin(v))

    both = numpy_jit(function)
    np.testing.assert_allclose(both(A, V), function(A, V), rtol=1e-12)
    np.testing.assert_allclose(jax.jacfwd(both, 1)(A, V), jax.jacfwd(function, 1)(A, V), rtol=1e-12)


def nothing_native(inputs, rest, *beside):
    return (None,)


def through_xla(monkeypatch):
    monkeypatch.setattr(native, "_native", nothing_native)
    monkeypatch.setattr(stacked, "_native", lambda *_: None)


RUNS = [
    ("heavy-top", "rkmk54", {"rtol": 1e-8, "save_at": np.linspace(0, 0.2, 23)}),
    ("heavy-top-constrained", "generalized-alpha", {"h": 1e-3, "save_every": 7}),
    *(
        pytest.param(*case, marks=pytest.mark.exhaustive)
        for case in [
            ("slider-crank", "generalized-alpha", {"h": 1e-3}),
            ("slider-crank", "herk4", {"h": 1e-3}),
            ("four-bar-loop", "eml", {"h": 1e-3}),
            ("flying-spaghetti", "herk5", {"h": 1e-3}),
            ("hanging-cable", "generalized-alpha", {"h": 1e-3}),
            ("puma", "generalized-alpha", {"h": 1e-3}),
            ("puma formulation=euler-parameters", "generalized-alpha", {"h": 1e-3}),
            ("andrews", "herk54", {"rtol": 1e-7, "save_at": np.linspace(0, 0.01, 5)}),
            ("body-chain n=40", "generalized-alpha", {"h": 1e-3}),
            ("body-chain n=200", "herk4", {"h": 1e-4}),
            ("flying-spaghetti n=40", "generalized-alpha", {"h": 1e-4}),
            ("flying-spaghetti n=120", "herk5", {"h": 1e-5}),
        ]
    ),
]
"""Systems of many bodies are loops over arrays, the others programs on scalars."""


@pytest.mark.exhaustive
@pytest.mark.parametrize(("name", "method", "how"), RUNS)
@pytest.mark.sampled(6)
def test_runs_in_machine_code_are_those_of_xla(name, method, how, monkeypatch):
    name, *given = name.split()
    parameters = dict(item.split("=") for item in given)
    problem = ph.problems.get(name, **{key: int(x) if x.isdigit() else x for key, x in parameters.items()})
    t1 = problem.t_span[0] + (200 * how["h"] if "h" in how else how["save_at"][-1])
    native = ph.simulate(problem, method, t1=t1, **how)
    assert native.stats["compiled"]["by"] != "xla"
    through_xla(monkeypatch)
    other = ph.simulate(problem, method, t1=t1, **how)
    assert native.stats["steps"] == other.stats["steps"]
    # Where the last iterations only move round-off, their number may differ.
    assert native.stats["newton_iterations"] == pytest.approx(other.stats["newton_iterations"], rel=0.05)
    np.testing.assert_array_equal(native.t, other.t)
    for x, y in zip(jax.tree.leaves(native.state), jax.tree.leaves(other.state), strict=True):
        # Implicit steps divide increments by h, so that round-off of positions, which adds up along chains and rods,
        # grows in velocities: 4e-11 to 7e-11 with h = 1e-3.
        along = method == "generalized-alpha" and y.ndim == 2 and y.shape[1] > 100
        divided = 1e-13 / how["h"] if along else 0.0
        np.testing.assert_allclose(x, y, rtol=0, atol=max(divided, 1e-11 * max(1.0, np.abs(y).max())))
    for key, value in other.outputs.items():
        np.testing.assert_allclose(native.outputs[key], value, rtol=1e-9, atol=1e-9)


AT_ONCE = dict.fromkeys(range(3), 0.0)


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "setting", [("_OPTIMISED_AT_ONCE", np.inf), ("_OPTIMISED_AT_ONCE", 0), ("_SECONDS_EACH", AT_ONCE)]
)
def test_the_effort_of_compiling_does_not_change_a_bit(setting, monkeypatch):
    problem = ph.problems.get("heavy-top-constrained")
    run = ph.simulate(problem, "generalized-alpha", h=1e-3, t1=0.3)
    monkeypatch.setattr(program_cache, "_PROGRAMS", program_cache._Programs(program_cache.CAPACITY))
    monkeypatch.setattr(jit, *setting)
    if setting[0] == "_SECONDS_EACH":
        monkeypatch.setattr(jit, "_OPTIMISED_AT_ONCE", 0)
    again = ph.simulate(problem, "generalized-alpha", h=1e-3, t1=0.3)
    for x, y in zip(jax.tree.leaves(run.state), jax.tree.leaves(again.state), strict=True):
        assert x.tobytes() == y.tobytes()
    assert run.stats["newton_iterations"] == again.stats["newton_iterations"]


def test_without_the_compiler_runs_go_through_xla_and_say_so(monkeypatch):
    monkeypatch.setattr(program_cache, "_PROGRAMS", program_cache._Programs(program_cache.CAPACITY))
    monkeypatch.setattr(jit, "llvm", None)
    jit.is_compiler_missing.cache_clear()
    problem = ph.problems.get("heavy-top")
    with pytest.warns(RuntimeWarning, match=r"llvmlite.*XLA.*pip install llvmlite"):
        run = ph.simulate(problem, "rkmk4", h=1e-3, t1=0.01)
    jit.is_compiler_missing.cache_clear()
    assert run.stats["result"] is ph.Result.successful
