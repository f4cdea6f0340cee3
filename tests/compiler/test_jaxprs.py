"""What is assumed of JAX's insides, one by one: a new version that breaks an assumption fails here, with a sentence."""

from __future__ import annotations

import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax.extend import core

from polhode import jax_context
from polhode.compiler import jaxprs
from polhode.compiler.numpy.interpreter import from_jaxpr

SOURCE = Path(jax_context.__file__).parent


def one(function, *args, name):
    """The first operation of this name in a trace."""
    return next(eqn for eqn in jax.make_jaxpr(function)(*args).eqns if eqn.primitive.name == name)


def test_only_two_modules_read_what_is_private_in_jax():
    private = re.compile(r"jax\._src|\"(ft_in|call_hi_primitive)\"")
    readers = {str(path.relative_to(SOURCE)) for path in SOURCE.rglob("*.py") if private.search(path.read_text())}
    assert readers == {"jax_context.py", "compiler/jaxprs.py"}


def test_this_jax_is_one_whose_insides_are_known():
    assert jax_context.IS_KNOWN
    assert jax_context.JVPTrace is not None, "jax._src.interpreters.ad has other names: derivatives of runs go by XLA"
    assert jax_context.BatchTrace is not None, "jax._src.interpreters.batching has other names"
    assert jax_context.batched_device_put is not None, "jax._src.interpreters.pxla has no batched_device_put"


def test_a_trace_of_our_own_has_the_methods_that_jax_calls():
    methods = {
        name for name, _ in inspect.getmembers(jax_context.Trace, inspect.isfunction) if name.startswith("process")
    }
    ours = {"process_primitive", "process_custom_jvp_call", "process_custom_vjp_call"}
    assert ours <= methods, "jax._src.core.Trace calls other methods"


def test_while_an_operation_is_bound_nothing_or_the_evaluating_trace_is_current():
    seen = []
    probe = core.Primitive("probe")

    class Probe(jax_context.EvaluatingTrace):
        def process_primitive(self, primitive, args, params, /):
            seen.append(jax_context.trace_ctx.trace)
            return args[0]

    trace = Probe()
    with core.set_current_trace(trace):
        probe.bind(np.ones(1))
    assert seen[0] in (None, jax_context.eval_trace), "Primitive.bind leaves another trace in place"


def test_traces_of_derivatives_have_parents_and_say_which_way_they_go():
    seen = {}

    def look(x, way):
        seen[way] = jax_context.in_reverse_mode(), jax_context.in_forward_mode(), jax_context.inside_transformation()
        return x * x

    jax.grad(lambda x: look(x, "back"))(1.0)
    jax.jvp(lambda x: look(x, "along"), (1.0,), (1.0,))
    jax.jacfwd(lambda x: look(x, "all"))(jnp.ones(2))
    jax.jit(lambda x: look(x, "traced"))(1.0)
    assert seen == {
        "back": (True, False, True),
        "along": (False, True, True),
        "all": (False, True, True),
        "traced": (False, False, True),
    }
    assert not jax_context.inside_transformation()


def test_a_scan_says_what_is_shared_and_what_is_carried():
    shared = jnp.ones(2)

    def run(a, b, rows):
        step = lambda carry, row: ((carry[0] + row @ shared, carry[1] * a), (carry[0], row))  # noqa: E731
        return jax.lax.scan(step, (b, b), rows, reverse=True)

    eqn = one(run, 1.0, 2.0, np.ones((3, 2)), name="scan")
    params = jaxprs.parameters(eqn)
    shapes = [v.aval.shape for v in eqn.invars]
    consts, carry = params["num_consts"], params["num_carry"]
    assert (consts, carry) == (2, 2)
    assert set(shapes[:consts]) == {(), (2,)}
    assert shapes[consts:] == [(), (), (3, 2)]
    assert (params["length"], params["reverse"]) == (3, True)
    assert len(params["jaxpr"].out_avals) == len(eqn.outvars)


@pytest.mark.parametrize(("consts", "carry", "rows", "outs"), [(0, 0, 1, 1), (2, 0, 2, 1), (1, 3, 1, 0), (3, 2, 2, 4)])
def test_parameters_of_a_scan_can_be_made(consts, carry, rows, outs):
    made = jaxprs._scan(consts, carry, rows, outs)
    eqn = one(lambda x: jax.lax.scan(lambda c, r: (c, r), x, np.ones(2)), 1.0, name="scan")
    found = jaxprs.parameters(eqn.replace(params=made))
    assert (found["num_consts"], found["num_carry"]) == (consts, carry)
    assert set(made) == set(eqn.params)


def test_loops_and_branches_have_their_programs_where_they_are_read():
    loop = one(lambda x: jax.lax.while_loop(lambda c: c < x, lambda c: c * x, 1.5), 9.0, name="while").params
    assert len(loop["cond_jaxpr"].jaxpr.invars) == loop["cond_nconsts"] + 1
    assert len(loop["body_jaxpr"].jaxpr.invars) == loop["body_nconsts"] + 1
    branch = one(lambda x: jax.lax.cond(x > 0, jnp.sin, jnp.cos, x), 1.0, name="cond").params
    # False comes first.
    assert [b.jaxpr.eqns[0].primitive.name for b in branch["branches"]] == ["cos", "sin"]


def test_a_linear_solve_holds_the_program_that_solves():
    def run(a, b):
        return jax.lax.custom_linear_solve(lambda x: a * x, b, lambda _, c: c / a, symmetric=True)

    eqn = one(run, 2.0, 3.0, name=jaxprs.LINEAR_SOLVE)
    closed, inputs = jaxprs.solve_program(eqn.params, [np.asarray(2.0)] * (len(eqn.invars) - 1) + [np.asarray(3.0)])
    np.testing.assert_allclose(core.jaxpr_as_fun(closed)(*inputs), [1.5])


@jax.custom_jvp
def doubled(x):
    return 2 * x


doubled.defjvp(lambda primals, tangents: (doubled(*primals), 2 * tangents[0]))


@pytest.mark.parametrize(
    "function",
    [
        doubled,
        jax.jit(lambda x: jnp.cumsum(x) * 3),
        jax.checkpoint(lambda x: jnp.sin(x) * x),
        lambda x: jnp.interp(x, np.linspace(0, 1, 5), np.arange(5.0) ** 2),
        lambda x: jnp.searchsorted(jnp.asarray([0.1, 0.3, 0.7]), x),
        lambda x: jnp.einsum("i,j->ij", x, x),
        lambda x: jnp.ldexp(*jnp.frexp(x)),
        lambda x: jnp.tile(jnp.stack((x, x * x)), (2, 3)),
    ],
    ids=["custom_jvp", "jit", "checkpoint", "interp", "searchsorted", "einsum", "ldexp", "tile"],
)
def test_operations_that_hold_others_are_opened(function):
    x = np.asarray([0.2, 0.45, 0.8])
    (got,) = from_jaxpr(jax.make_jaxpr(function)(x))([x])
    np.testing.assert_allclose(got, function(x), rtol=1e-15)


UNKNOWN = """
import warnings
import jax
{change}
warnings.simplefilter("always")
import numpy as np
import polhode as ph
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    top = ph.problems.get("free-rigid-body")
    run = ph.simulate(top, "rkmk4", h=0.01, t1=0.1)
    slope = jax.grad(lambda v: ph.simulate(top, "rkmk4", h=0.01, t1=0.1, state0=(top.state0[0], v)).state[1][-1, 0])(
        top.state0[1]
    )
assert run.stats["result"] == 0 and np.isfinite(slope).all()
assert run.stats["compiled"]["by"] == "xla", run.stats["compiled"]
print([str(w.message) for w in said])
print(repr(np.asarray(run.state[1][-1]).tolist()))
"""


HIDDEN_NAME = """
import builtins
real = builtins.__import__
def without(name, at=None, *rest, **named):
    if name == "jax._src.core" and (at or {}).get("__name__", "").startswith("polhode"):
        raise ImportError("no such name")
    return real(name, at, *rest, **named)
builtins.__import__ = without
"""


@pytest.mark.exhaustive
@pytest.mark.parametrize(
    "change",
    [
        'jax.__version_info__ = (0, 99, 0); jax.__version__ = "0.99.0"',
        pytest.param(HIDDEN_NAME, marks=pytest.mark.exhaustive),
    ],
    ids=["newer", "other names"],
)
def test_a_jax_that_is_not_known_runs_all_by_xla_and_says_so_once(change, tmp_path):
    import polhode as ph

    environment = {**os.environ, "XDG_CACHE_HOME": str(tmp_path)}
    command = [sys.executable, "-c", UNKNOWN.format(change=change)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    said, end = done.stdout.splitlines()
    assert len(re.findall("is not known to this polhode", said)) == 1, said
    top = ph.problems.get("free-rigid-body")
    here = ph.simulate(top, "rkmk4", h=0.01, t1=0.1)
    np.testing.assert_allclose(eval(end), here.state[1][-1], rtol=1e-13)
