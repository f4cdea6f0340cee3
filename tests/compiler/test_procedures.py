"""Programs that another one calls several times are one function each, and change no bit."""

import dataclasses

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import polhode as ph
from polhode.compiler import size_limits
from polhode.compiler.arrays.array_ir import Function, pointers_of
from polhode.compiler.arrays.block_builder import BlockBuilder
from polhode.compiler.arrays.llvm_printer import compile_function
from polhode.compiler.cache import disk_cache, program_cache
from polhode.compiler.llvm import ir_builder, short_blocks
from polhode.compiler.loops import step_loop
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.scalars.cost import cost_of_code
from polhode.compiler.scalars.program import subprograms
from polhode.compiler.trace import on_scalars, trace

V = np.array([0.3, -0.7, 1.1])
P = np.array([1.3, 0.2, -0.4])


@pytest.fixture
def limit(monkeypatch):
    """Sets the least size of procedures; programs are built anew."""

    def set_limit(operations):
        monkeypatch.setattr(size_limits, "PROCEDURE", operations)
        monkeypatch.setattr(disk_cache, "is_on", lambda: False)
        monkeypatch.setattr(program_cache, "_PROGRAMS", program_cache._Programs(program_cache.CAPACITY))

    return set_limit


def kepler(m, e):
    """The eccentric anomaly, by a loop of unknown length."""
    error = lambda x: x - e * jnp.sin(x) - m  # noqa: E731
    return jax.lax.while_loop(lambda x: jnp.abs(error(x)) > 1e-13, lambda x: x - error(x) / (1 - e * jnp.cos(x)), m)


def field(p, v):
    """Branches, loops over rows and of unknown length, and what depends on parameters alone."""
    rotation = jnp.array([[0, -p[2], p[1]], [p[2], 0, -p[0]], [-p[1], p[0], 0]]) * jnp.tanh(p)
    x = jax.lax.cond(v[0] > 0, lambda: rotation @ v, lambda: jnp.cross(v, p))
    _, rows = jax.lax.scan(lambda c, row: (c + row, c * row), x[0], v)
    return x + rows + kepler(v[1], 0.3) * jnp.abs(p)


def stages(p, v):
    """Calls with other variables, with equal ones, and with constants."""
    call = jax.jit(field)
    twice = jax.jit(lambda p, v: call(p, call(p, v)) - v)
    a = twice(p, v)
    b = twice(p, v + 0.1 * a)
    c = twice(p, b * 0.1)
    return a, b, c, twice(p, jnp.ones(3) * v[0]), call(p, jnp.array([0.5, -0.25, 2.0])), twice(p, v)


def test_later_calls_are_no_further_code():
    call = jax.jit(field)
    once = jax.make_jaxpr(lambda p, v: call(p, v))(P, V)
    thrice = jax.make_jaxpr(lambda p, v: call(p, call(p, call(p, v))))(P, V)
    assert cost_of_code(thrice.jaxpr) == cost_of_code(once.jaxpr) > 0


def names(program):
    return [o.name for o in program.operations]


def results(program):
    """What machine code computes."""
    k, pointers = BlockBuilder(), pointers_of(("x", "out"))
    values = [k.load_slot(pointers["x"], n, np.dtype(float)) for n in range(6)]
    outs = k.call(program, values)
    for n, x in enumerate(outs):
        k.store(pointers["out"], (n,), (1,), x)
    out = np.zeros(len(outs))
    compile_function(Function(pointers, k.block, np.int64(0)))(np.concatenate([P, V]), out)
    return out


@pytest.mark.parametrize("least", [20, 60])
def test_calls_compute_what_inlined_programs_compute(least, limit):
    limit(10**9)
    inlined = on_scalars(trace(stages, P, V), P, V)
    assert "call" not in names(inlined)
    limit(least)
    called = on_scalars(trace(stages, P, V), P, V)
    assert names(called).count("call") >= 3
    assert called.size < 0.8 * inlined.size
    np.testing.assert_array_equal(results(called), results(inlined))
    expected = np.concatenate(jax.jit(stages)(P, V))
    np.testing.assert_allclose(results(called), expected, rtol=1e-12, atol=1e-13)


def test_what_depends_on_common_operands_alone_is_computed_once(limit):
    def chain(p, v):
        call = jax.jit(field)
        return call(p, call(p, call(p, v)))

    limit(20)
    program = on_scalars(trace(chain, P, V), P, V)
    bodies = {o.params["body"] for o in program.operations if o.name == "call"}
    assert (len(bodies), names(program).count("call"), names(program).count("tanh")) == (1, 3, 3)
    assert not any(o.name == "tanh" for body in bodies for o in body.operations)


def test_derivatives_are_those_of_inlined_programs(limit):
    limit(20)
    program = on_scalars(trace(stages, P, V), P, V, wrt=(0, 1))
    assert "call" not in names(program)


def test_runs_and_lanes_have_the_bytes_of_inlined_programs(limit, monkeypatch):
    texts = []
    function = ir_builder.IRBuilder.function

    def noted(self, *arguments):
        texts.append(function(self, *arguments))
        return texts[-1]

    monkeypatch.setattr(ir_builder.IRBuilder, "function", noted)
    system = ph.VectorField(ph.spaces.Rn(2), lambda t, y: jnp.stack([y[1], kepler(jnp.sin(y[1]), 0.4) - y[0]]))
    starts = np.array([[0.1, 0.9], [1.0, -0.4], [np.nan, 0.0], [2.0, 2.5]])
    options = {"h": 0.05, "t1": 1.0, "save_every": 4}
    empty = {key: {} for key in ("outputs", "invariants", "reference")}
    problem = dataclasses.replace(ph.problems.get("heavy-top"), system=system, state0=starts[0], build=None, **empty)
    limit(10**9)
    alone = np.asarray(ph.simulate(problem, "rkmk4", **options).frames.state)
    assert "@procedure" not in "".join(texts)
    limit(5)
    np.testing.assert_array_equal(alone, ph.simulate(problem, "rkmk4", **options).frames.state)
    assert "@procedure" in "".join(texts)
    texts.clear()
    lanes = ph.ensemble(problem, "rkmk4", states=starts, **options)
    assert any("@procedure" in text and " x double>" in text for text in texts)
    np.testing.assert_array_equal(alone, lanes.dataset["state"].values[0])
    assert np.isfinite(lanes.dataset["state"].values[[0, 1, 3]]).all()


def test_short_blocks_compute_the_same(limit, monkeypatch):
    limit(60)
    monkeypatch.setattr(short_blocks, "_LONGEST", 10)
    expected = results(on_scalars(trace(stages, P, V), P, V))
    texts = []
    function = ir_builder.IRBuilder.function

    def cut(self, *arguments):
        texts.append(short_blocks.with_short_blocks(function(self, *arguments)))
        return texts[-1]

    monkeypatch.setattr(ir_builder.IRBuilder, "function", cut)
    np.testing.assert_array_equal(results(on_scalars(trace(stages, P, V), P, V)), expected)
    assert texts[0].count("\npart") > 10


def test_look_ups_within_procedures_have_the_values_of_jax(limit):
    knots = np.linspace(0, 2, 50)

    def function(p, v):
        call = jax.jit(lambda p, v: jnp.interp(v, knots, jnp.asarray(np.sin(knots))) + jnp.tanh(p) * v)
        return call(p, call(p, call(p, v)))

    limit(20)
    program = on_scalars(trace(function, P, V), P, V)
    assert names(program).count("call") == 3
    np.testing.assert_allclose(results(program), function(P, V), rtol=1e-13)


def nested(x, table):
    """Calls within calls that look up in arrays: in parts of one, at rows of it, and where another one says."""
    call = jax.jit(lambda t, row: jnp.interp(t, X, row) * jnp.tanh(t) + row[jnp.int64(10 * t)])
    rows = jax.jit(lambda t: jax.lax.scan(lambda s, row: (call(s, row), s), t, table)[0] + jnp.sin(t))
    return call(x, table[0]) + call(x, table[1]) + rows(x) * rows(call(x, table[jnp.int64(2 * x)]))


X = np.linspace(0, 1, 40)
TABLE = np.stack([X**2, np.cos(3 * X), np.sin(5 * X)])


@pytest.mark.exhaustive
def test_arrays_in_memory_are_looked_up_in_procedures(limit):
    times = np.random.default_rng(0).uniform(0, 1, 20)
    limit(10)
    program = on_scalars(trace(nested, 0.5, TABLE), 0.5, TABLE)
    assert len(program.inputs) == 2
    assert names(program).count("call") == 3
    rows = RowMap.of(lambda table, t: nested(t, table), TABLE, times[0])
    expected = jax.vmap(lambda t: nested(t, jnp.asarray(TABLE)))(times)
    np.testing.assert_allclose(rows(TABLE, times), expected, rtol=1e-12)


def test_parts_of_arrays_that_calls_return_are_looked_up_in_memory(limit):
    def function(t, table):
        call = jax.jit(lambda t: (jnp.stack([table[1], table[0]]), jnp.sin(t) * jnp.cos(t) + t**2))
        (a, x), (b, y) = call(t), call(2 * t)
        return jnp.interp(x, X, a[0]) + jnp.interp(y, X, b[1])

    limit(3)
    program = on_scalars(trace(function, 0.5, TABLE), 0.5, TABLE)
    assert len(program.inputs) == 2
    assert program.size < 400
    rows = RowMap.of(lambda table, t: function(t, table), TABLE, X[0])
    np.testing.assert_allclose(rows(TABLE, X), jax.vmap(lambda t: function(t, jnp.asarray(TABLE)))(X), rtol=1e-12)


@pytest.mark.exhaustive
def test_tables_for_all_joints_of_a_robot_cost_few_operations(monkeypatch):
    sizes = []

    def note(program, *examples, pattern):
        # With the numbers of the model as variables, of which both programs have as many.
        del pattern
        built = on_scalars(program, *examples)
        bodies = {o.params["body"] for o in operations(built) if o.name == "call"}
        if bodies:
            sizes.append(built.size)
            raise InterruptedError
        return built

    def operations(program):
        for operation in program.operations:
            yield operation
            for body in subprograms(operation):
                yield from operations(body)

    def size(control):
        model, joints = ph.Model(gravity=(0, 0, -9.81)), []
        below = model.ground
        for k in range(7):
            body = model.add_body(mass=1 + 0.1 * k, inertia=(0.02, 0.03, 0.04), position=(0.3 * k + 0.15, 0.02, 0.01))
            joints.append(model.add(ph.joints.Revolute(below, body, point=(0.3 * k, 0, 0), axis=np.eye(3)[k % 3])))
            below = body
        model.add(ph.forces.JointControl(joints, control))
        problem = model.problem("minimal", t1=0.01, h=0.01)
        with pytest.raises(InterruptedError):
            ph.simulate(problem, "rkmk4", save_every=None)
        return sizes.pop()

    monkeypatch.setattr(step_loop, "on_scalars", note)
    monkeypatch.setattr(disk_cache, "is_on", lambda: False)
    knots = np.linspace(0, 1, 2001)
    table = ph.PiecewiseLinear(knots, np.outer(np.sin(knots), np.arange(7.0)))
    grid = ph.Table2D(knots[::50], knots[::100], np.outer(knots[::50], knots[::100]))
    plain = size(lambda t, angles, rates: jnp.sin(t) * jnp.arange(7.0) - rates)
    assert size(lambda t, angles, rates: table(t) * jnp.stack(list(map(grid, angles, rates)))) < 1.5 * plain
