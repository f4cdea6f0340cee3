"""Programs printed in C and compiled by the system's compiler give the bytes of machine code."""

from __future__ import annotations

import ctypes
import shutil
import subprocess

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from test_array_programs import PROGRAMS, WHERE, X

import polhode as ph
from polhode.compiler import size_limits
from polhode.compiler.arrays.array_ir import Function, pointers_of
from polhode.compiler.arrays.block_builder import BlockBuilder
from polhode.compiler.arrays.llvm_printer import compile_function
from polhode.compiler.c.array_printer import print_file
from polhode.compiler.c.expressions import FLOATS, INTEGERS
from polhode.compiler.cache import disk_cache, program_cache
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops import loop_code
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.trace import on_scalars, trace
from polhode.linalg import branches
from polhode.linalg.blocks import dense_block

COMPILER = shutil.which("cc") or ""
FLAGS = ("-std=c99", "-pedantic", "-Wall", "-Wextra", "-Werror", "-Wno-unused", "-ffp-contract=off", "-fPIC", "-shared")

pytestmark = pytest.mark.skipif(not COMPILER, reason="there is no C compiler")


def compile_c(function, folder, level="-O0"):
    """The function of the C file, with its text and workspace."""
    file = print_file(function)
    source, library = folder / "run.c", folder / f"run{len(list(folder.iterdir()))}.so"
    source.write_text(file.text)
    subprocess.run([COMPILER, *FLAGS, level, source, "-o", library, "-lm"], check=True)
    run = ctypes.CDLL(str(library)).run
    run.restype, run.argtypes = ctypes.c_int64, [ctypes.c_void_p] * (len(function.arguments) + 1)
    return run, file


@pytest.fixture
def in_c(monkeypatch, tmp_path):
    """Call it, and from then on functions are compiled by the C compiler in place of LLVM; returns their texts."""
    texts = []

    def compiled(function, tell=None, long=False):
        code = compile_function(function, tell, long)
        run, file = compile_c(function, tmp_path)
        texts.append(file.text)
        # It is called with a table of constants too, which are part of the text here.
        monkeypatch.setattr(code, "_call", lambda *pointers: run(*pointers[:-1]))
        code._workspace, code._pending_text = file.workspace, None
        return code

    def begin():
        monkeypatch.setattr(disk_cache, "is_on", lambda: False)
        monkeypatch.setattr(program_cache, "_PROGRAMS", program_cache._Programs(program_cache.CAPACITY))
        monkeypatch.setattr(loop_code, "compile_function", compiled)
        return texts

    return begin


def bytes_of(tree):
    return [np.asarray(x).tobytes() for x in jax.tree.leaves(tree)]


@pytest.mark.sampled(29)
@pytest.mark.parametrize("name", PROGRAMS)
def test_array_programs_have_the_bytes_of_machine_code(name, in_c):
    def results():
        return bytes_of(RowMap.of(lambda _, row: PROGRAMS[name](*row), (), (X[0], WHERE[0]))((), (X, WHERE)))

    expected, texts = results(), in_c()
    assert results() == expected
    assert len(texts) == 1


RUNS = {
    "top": lambda: ph.simulate(ph.problems.get("heavy-top"), "rkmk4", h=1e-3, t1=0.02),
    "loop": lambda: ph.simulate(ph.problems.get("planar-four-bar"), "generalized-alpha", h=1e-3, t1=0.1),
    "chain": lambda: ph.simulate(ph.problems.get("body-chain", n=30), "herk4", h=1e-3, t1=0.02),
    "rod": lambda: ph.simulate(ph.problems.get("flying-spaghetti", n=24), "generalized-alpha", h=1e-3, t1=0.02),
    "bonds": lambda: ph.simulate(ph.problems.get("torus"), t1=0.02),
    "grains": lambda: ph.simulate(ph.problems.get("grain-pile"), t1=0.02),
}


@pytest.mark.parametrize("name", [pytest.param(x, marks=[] if x == "top" else pytest.mark.exhaustive) for x in RUNS])
def test_runs_have_the_bytes_of_machine_code(name, in_c):
    expected, texts = bytes_of(RUNS[name]().frames), in_c()
    assert bytes_of(RUNS[name]().frames) == expected
    assert texts


def both(function, folder, count, level="-O0"):
    """What machine code and C leave in `out`."""
    x, native, c = np.zeros(1, np.int64), np.full(count, -1), np.full(count, -1)
    run, file = compile_c(function, folder, level)
    workspace = np.zeros(max(file.workspace, 1), np.int64)
    assert compile_function(function)(x, native) == 7
    assert run(*(array.ctypes.data for array in (x, c, workspace))) == 7
    return native, c


def function_of(cases):
    """The function that applies operations to arrays and stores the results in `out`, one after the other."""
    k, pointers = BlockBuilder(), pointers_of(("x", "out"))
    for at, (name, dtype, operands) in enumerate(cases):
        size = len(operands[0])
        with k.loop(size) as n:
            values = [k.load(k.table(x), (n,), (1,), x.dtype) for x in operands]
            power = -5 if values[0].dtype.kind == "f" else 5
            result = k.apply(name, np.dtype(dtype), *values, params={"y": power, "rounding_method": 1})
            k.store(pointers["out"], (k.plus(n, at * size),), (1,), result)
    return Function(pointers, k.block, np.int64(7))


def pairs_of(values):
    """All pairs, as two arrays."""
    return np.stack(np.meshgrid(values, values), -1).reshape(-1, 2).T.copy()


NUMBERS = np.array([0.0, -0.0, 1.0, -1.5, 2.5, 0.3, -7.0, 1e300, 5e-324, 4e18, np.inf, -np.inf, np.nan])
WITH_TWO = {"atan2", "pow", "nextafter", "add", "add_any", "sub", "mul", "div", "rem", "max", "min", "le_to", "lt_to"}
OF_TRUTH = {"is_finite", "le_to", "lt_to", "lt", "le", "gt", "ge", "eq", "ne"}
COMPARISONS = sorted(OF_TRUTH - FLOATS.keys())


def test_every_operation_on_floats_has_the_bytes_of_machine_code(tmp_path):
    x, y = pairs_of(NUMBERS)
    names = [*FLOATS, *COMPARISONS]
    operands = {"clamp": (y, x, x)} | dict.fromkeys((*WITH_TWO, *COMPARISONS), (x, y))
    cases = [(name, bool if name in OF_TRUTH else float, operands.get(name, (x,))) for name in names]
    native, c = both(function_of(cases), tmp_path, len(names) * x.size)
    # The sign of what is not a number is not part of IEEE 754's results.
    same = (native == c) | (np.isnan(native.view(np.float64)) & np.isnan(c.view(np.float64)))
    assert not {*np.repeat(names, x.size)[~same]}


@pytest.mark.parametrize("kind", [np.int32, np.int64])
def test_every_operation_on_integers_has_the_bytes_of_machine_code(kind, tmp_path):
    limits = np.iinfo(kind)
    x, y = pairs_of(np.array([limits.min, limits.max, -7, -1, 0, 1, 3], kind))
    floats, truths = np.resize(NUMBERS, x.size), x < y
    operands = {"clamp": (y, x, x)} | dict.fromkeys(("neg", "not", "sign", "abs", "integer_pow", "square"), (x,))
    cases = [
        (name, bool if name in OF_TRUTH else kind, operands.get(name, (x, y))) for name in (*INTEGERS, *COMPARISONS)
    ]
    cases += [
        ("convert_element_type", to, (of,)) for of in (x, floats, truths) for to in (np.int32, np.int64, float, bool)
    ]
    cases += [("select_n", kind, (truths, x, y)), ("not", bool, (truths,)), ("xor", bool, (truths, x > 0))]
    native, c = both(function_of(cases), tmp_path, len(cases) * x.size)
    assert not {*np.repeat([name for name, *_ in cases], x.size)[native != c]}


def test_loops_and_branches_of_programs_on_scalars(tmp_path):
    def function(x):
        def row(carry, y):
            a, b = carry
            return (b, a + y[0] * y[1]), (jnp.where(b > 0, y[0], a), b < y[1])

        (a, b), (outs, flags) = jax.lax.scan(row, (x[0], x[1]), jnp.outer(x, x)[:, :2] + 1.0, reverse=True)
        a, b, n = jax.lax.while_loop(
            lambda c: (c[2] < 9) & (c[0] < 5), lambda c: (c[1], c[0] + c[1], c[2] + 1), (a, b, 0)
        )
        branches = [lambda: a, lambda: b * 2, lambda: jnp.sum(outs)]
        return jax.lax.switch(n % 3, branches), outs, jax.lax.cond(flags[0], lambda: a + b, lambda: a - b), n

    values = np.array([0.3, -0.7, 1.1, 0.4, -0.2])
    program = on_scalars(trace(function, values), values)
    assert {o.name for o in program.operations} >= {"rows", "while", "cond"}
    k, pointers = BlockBuilder(), pointers_of(("x", "out"))
    results = k.call(program, list(values))
    for n, x in enumerate(results):
        k.store(pointers["out"], (n,), (1,), x)
    native, c = both(Function(pointers, k.block, np.int64(7)), tmp_path, len(results))
    np.testing.assert_array_equal(native, c)
    expected = [np.asarray(x, float).ravel() for x in jax.tree.leaves(function(jnp.asarray(values)))]
    np.testing.assert_allclose(c[:-1].view(float), np.concatenate(expected)[:-1], rtol=1e-14)
    assert c[-1] == expected[-1]


def test_eliminations_of_trees_have_the_bytes_of_machine_code_and_of_single_operations(tmp_path, monkeypatch):
    monkeypatch.setattr(branches, "_LOOPED_UPDATES", 0)
    monkeypatch.setattr(branches, "_LARGER", 9)
    parents = [-1, 0, 1, 0, 3, 3, -1, 6]
    sets = [np.array([0])]
    for k, parent in enumerate(parents[1:], 1):
        sets.append(np.append(sets[parent] if parent >= 0 else np.zeros(0, int), k))
    # A force between branches, whose carriers are not all coupled.
    solver = branches.BranchKKT.of(8, [*sets, np.array([2, 5])], [], 30)
    A = np.zeros((8, 8))
    for numbers in sets:
        A[np.ix_(numbers, numbers)] += np.random.default_rng(3).standard_normal((len(numbers), len(numbers)))
    A[2, 5] = A[5, 2] = 0.3
    A += 9 * np.eye(8)

    def function(x):
        factors = solver.factor(dense_block(A * x[:, None]), (), ())
        return factors.lu, solver.solve(factors, x, jnp.zeros(0))[0]

    values = np.linspace(0.5, 1.5, 8)
    program = on_scalars(trace(function, values), values)
    assert [o.name for o in program.operations].count("elimination") == 1
    monkeypatch.setattr(branches, "_LOOPED_UPDATES", np.inf)
    one_by_one = on_scalars(trace(function, values), values)
    assert "elimination" not in [o.name for o in one_by_one.operations]
    functions = []
    for each in (program, one_by_one):
        k, pointers = BlockBuilder(), pointers_of(("x", "out"))
        for n, x in enumerate(k.call(each, list(values))):
            k.store(pointers["out"], (n,), (1,), x)
        functions.append(Function(pointers, k.block, np.int64(7)))
    native, c = both(functions[0], tmp_path, 72)
    single = np.zeros(72, np.int64)
    compile_function(functions[1])(np.zeros(1, np.int64), single)
    np.testing.assert_array_equal([native, c], [single, single])
    np.testing.assert_allclose((A * values[:, None]) @ single[64:].view(float), values, rtol=1e-12)


def test_procedures_have_the_bytes_of_machine_code(tmp_path, monkeypatch):
    def function(x):
        call = jax.jit(lambda p, v: jnp.sin(p) * v + jax.lax.cond(v[0] > 0, lambda: jnp.cross(p, v), lambda: v * v))
        return call(x[:3], call(x[:3], call(x[:3], x[2:])))

    values = np.array([0.3, -0.7, 1.1, 0.4, -0.2])
    monkeypatch.setattr(size_limits, "PROCEDURE", 10)
    program = on_scalars(trace(function, values), values)
    assert [o.name for o in program.operations].count("call") == 3
    k, pointers = BlockBuilder(), pointers_of(("x", "out"))
    for n, x in enumerate(k.call(program, list(values))):
        k.store(pointers["out"], (n,), (1,), x)
    native, c = both(Function(pointers, k.block, np.int64(7)), tmp_path, 3)
    np.testing.assert_array_equal(native, c)
    np.testing.assert_allclose(c.view(float), function(jnp.asarray(values)), rtol=1e-14)


def test_operations_of_procedures_count_in_each_call(monkeypatch):
    monkeypatch.setattr(size_limits, "PROCEDURE", 10)
    call = jax.jit(lambda p, v: jnp.sin(p) * v + jax.lax.cond(v[0] > 0, lambda: jnp.cross(p, v), lambda: v * v))

    def count(times):
        def function(x):
            v = x[2:]
            for _ in range(times):
                v = call(x[:3], v)
            return v

        values = np.array([0.3, -0.7, 1.1, 0.4, -0.2])
        k, pointers = BlockBuilder(), pointers_of(("x", "out"))
        for n, x in enumerate(k.call(on_scalars(trace(function, values), values), list(values))):
            k.store(pointers["out"], (n,), (1,), x)
        return print_file(Function(pointers, k.block, np.int64(7))).operations

    third, second = count(4) - count(3), count(3) - count(2)
    # Three sines, products and sums, both branches, and what passes arguments and results.
    assert third == second > 35


@pytest.mark.parametrize("level", ["-O2", "-O3"])
def test_optimisation_does_not_change_a_bit(level, tmp_path):
    k, pointers = BlockBuilder(), pointers_of(("x", "out"))
    table = k.table(np.linspace(0.1, 2.3, 35).reshape(5, 7))
    with k.nest((5, 7), independent=True) as (i, j):
        a, b = (k.load(table, place, (7, 1), np.dtype(float)) for place in ((i, j), (4, j)))
        total = k.apply("sub", a.dtype, k.apply("mul", a.dtype, a, b), k.apply("mul", a.dtype, b, b))
        k.store(pointers["out"], (j, i), (5, 1), total)
    native, c = both(Function(pointers, k.block, np.int64(7)), tmp_path, 35, level)
    np.testing.assert_array_equal(native, c)
    assert len({*native}) > 20


@pytest.mark.parametrize(("name", "dtype"), [("erf_inv", np.float64), ("add", np.float32)])
def test_what_c_has_not_is_refused_by_name(name, dtype):
    with pytest.raises(UnsupportedNativeOperation, match=r"(erf_inv|float32) in C"):
        print_file(function_of([(name, dtype, [np.ones(2, dtype)] * 2)]))


def test_procedures_that_look_up_in_arrays_and_constants_have_the_bytes_of_machine_code(in_c, monkeypatch):
    knots = np.linspace(1, 2, 21)
    table, times = np.stack([knots**2, np.cos(knots)]), np.linspace(0.9, 2.1, 9)

    def function(table, t):
        call = jax.jit(
            lambda t, row: jnp.interp(t, knots, row) * t + jnp.asarray(knots.view(np.int32))[jnp.int64(9 * t)]
        )
        return call(t, table[0]) + call(t + 0.1, table[1]) * call(0.5 * t, table[jnp.int64(t)])

    def results():
        return bytes_of(RowMap.of(function, table, times[0])(table, times))

    expected, texts = results(), in_c()
    monkeypatch.setattr(size_limits, "PROCEDURE", 10)
    assert results() == expected
    assert texts[0].count("static const") == 2
