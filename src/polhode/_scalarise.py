"""Run small-array programs on scalars.

XLA compiles a loop over a few scalars to straight machine code; the same loop over arrays of three or four
elements pays for a buffer and a kernel at every concatenation. Measured on the heavy top with RKMK4: 1.6 µs a step
on small arrays, 0.09 µs on scalars. So the driver traces one step on arrays, as the methods and systems are
written, and this module replays the trace element by element into a graph of scalar operations: copying primitives
(slices, stacks, transposes) vanish, products with structural zeros and ones are dropped, small matrix products are
unrolled, equal expressions are shared. The graph is then emitted as JAX scalar operations.

Primitives without a rule here are bound on packed arrays, so every program runs; it is only not faster then.
"""

from __future__ import annotations

import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core

from polhode._graph import Elements, Graph, is_known

_SUBCALLS = {
    "jit": "jaxpr",
    "pjit": "jaxpr",
    "closed_call": "call_jaxpr",
    "core_call": "call_jaxpr",
    "remat2": "jaxpr",
    "checkpoint": "jaxpr",
    "custom_jvp_call": "call_jaxpr",
    "custom_vjp_call": "call_jaxpr",
    "custom_vjp_call_jaxpr": "fun_jaxpr",
}

_ELEMENTWISE = frozenset(
    [
        "abs",
        "acos",
        "acosh",
        "add",
        "add_any",
        "and",
        "asin",
        "asinh",
        "atan",
        "atan2",
        "atanh",
        "cbrt",
        "ceil",
        "clamp",
        "convert_element_type",
        "copy",
        "copy_p",
        "cos",
        "cosh",
        "div",
        "eq",
        "erf",
        "erf_inv",
        "erfc",
        "exp",
        "exp2",
        "expm1",
        "floor",
        "ge",
        "gt",
        "integer_pow",
        "is_finite",
        "le",
        "lgamma",
        "log",
        "log1p",
        "logistic",
        "lt",
        "max",
        "min",
        "mul",
        "ne",
        "neg",
        "nextafter",
        "not",
        "or",
        "pow",
        "real",
        "rem",
        "round",
        "rsqrt",
        "select_n",
        "shift_left",
        "shift_right_arithmetic",
        "shift_right_logical",
        "sign",
        "sin",
        "sinh",
        "sqrt",
        "square",
        "stop_gradient",
        "sub",
        "tan",
        "tanh",
        "xor",
    ]
)

_REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "mul",
    "reduce_and": "and",
    "reduce_or": "or",
}

_SCATTERS = {
    "scatter-add": "add",
    "scatter-sub": "sub",
    "scatter-mul": "mul",
    "scatter-min": "min",
    "scatter-max": "max",
}

# How far the count before simplification may exceed the limit: that of multibody systems falls to a quarter.
_WORTH_TRYING = 8

# Elements of an array that a program closes over, above which it stays an array.
_SPLIT = 1000

# A loop that calls a library runs as separate kernels, where scalars pay only for the smallest steps.
_CALLING_OUT = 10


class Program:
    """`fun` traced once, to be replayed on flat lists of scalars.

    **Arguments:**

    - `fun`: a function of pytrees of arrays.
    - `examples`: arguments to trace it with; only their structure, shapes and dtypes matter.
    """

    def __init__(self, fun: Callable, *examples: Any) -> None:
        self.closed, self.out_shape = jax.make_jaxpr(fun, return_shape=True)(*examples)
        self.cost = cost(self.closed.jaxpr)

    def constants(self) -> list[Any]:
        """The elements of what `fun` closes over and JAX traces, such as the leaves of a system."""
        return [x for c in self.closed.consts if _is_split(c) for x in split(c)]

    def __call__(self, flat: Sequence[Any], one: Any = None, constants: Sequence[Any] | None = None) -> list[jax.Array]:
        """From the flat list of all argument elements to that of all result elements.

        `one` is a scalar that equals 1 when the program runs but that XLA does not know: see `Graph.emit`.
        `constants` stand in for `constants()`.
        """
        replay = _Replay(one)
        jaxpr = self.closed.jaxpr
        inputs = replay.restore(flat, [v.aval for v in jaxpr.invars])
        given = iter(self.constants() if constants is None else constants)
        consts = [
            replay.restore([next(given) for _ in range(math.prod(c.shape))], [v.aval])[0]
            if _is_split(c)
            else replay.unpack(c)
            for v, c in zip(jaxpr.constvars, self.closed.consts, strict=True)
        ]
        outs = replay.evaluate(jaxpr, consts, inputs)
        return replay.flatten(outs, [v.aval for v in jaxpr.outvars])


def _is_split(constant: Any) -> bool:
    return isinstance(constant, Tracer) and math.prod(constant.shape) <= _SPLIT


def scalarise(fun: Callable, limit: float, one_kernel: bool = False) -> Callable:
    """`fun` with its arithmetic done on scalars, or `fun` itself if that takes more than `limit` operations.

    Counted is what is left after structural zeros and repeated expressions are gone; a first guess without that decides
    whether it is worth trying. The result takes `one` (see `Program`) before the arguments of `fun`. `one_kernel` is
    for functions that consist of a loop: see `_one_kernel`.
    """

    def scalarised(one: Any, *args: Any) -> Any:
        program = Program(fun, *args)
        plain = not _calls_out(program.closed.jaxpr, _PLAIN)
        allowed = limit if plain else limit / _CALLING_OUT
        if program.cost > _WORTH_TRYING * allowed:
            return fun(*args)
        # All that is used inside comes in as scalars, and the inputs are returned as well: XLA aborts on a parameter
        # that its own simplifications have left unused.
        given, closed_over = split(args), program.constants()
        flat, n = [one, *given, *closed_over], 1 + len(given)
        traced = jax.make_jaxpr(jax.jit(lambda x: [*program(x[1:n], x[0], x[n:]), *x]))(flat)
        if operations(traced.jaxpr) > allowed:
            return fun(*args)
        run = _one_kernel if one_kernel and plain else lambda closed, x: core.jaxpr_as_fun(closed)(*x)
        return join(run(traced, flat)[: -len(flat)], program.out_shape)

    return scalarised


def operations(jaxpr: Any) -> int:
    """Number of equations of a program on scalars, loops and branches included once."""
    total = 0
    for eqn in jaxpr.eqns:
        inner = [v for v in eqn.params.values() if isinstance(v, core.Jaxpr | core.ClosedJaxpr)]
        inner += [j for v in eqn.params.values() if isinstance(v, tuple) for j in v if isinstance(j, core.ClosedJaxpr)]
        total += sum(operations(_open(j)[0]) for j in inner) if inner else 1
    return total


def _one_kernel(closed: core.ClosedJaxpr, flat: list[jax.Array]) -> list[Any]:
    """Run a traced call and have XLA's CPU backend compile it, loops included, into one machine function.

    It does so by itself for loops that touch less than a kilobyte; a larger scalar loop would otherwise run as
    hundreds of separately called kernels, ten to thirty times slower. Other backends ignore the attributes. Setting
    the environment variable POLHODE_ONE_KERNEL=0 leaves the choice to XLA.
    """
    (call,) = closed.eqns
    if os.environ.get("POLHODE_ONE_KERNEL") == "0" or _calls_out(call.params["jaxpr"].jaxpr, _ONE_FUNCTION):
        return core.jaxpr_as_fun(closed)(*flat)
    # Bound here with its body already traced: only the call may carry the attributes, not what is inside.
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        known = dict(zip((*closed.jaxpr.constvars, *closed.jaxpr.invars), (*closed.consts, *flat), strict=True))
        outs = call.primitive.bind(*(known[v] for v in call.invars), **call.params)
    results = dict(zip(call.outvars, outs, strict=True))
    return [v.val if isinstance(v, core.Literal) else results.get(v, known.get(v)) for v in closed.jaxpr.outvars]


def _calls_out(jaxpr: core.Jaxpr, plain: frozenset[str]) -> bool:
    """Whether `jaxpr` holds anything but `plain` primitives: which one machine function may not."""
    for eqn in jaxpr.eqns:
        name = eqn.primitive.name
        inner = [_open(eqn.params[_SUBCALLS[name]])[0]] if name in _SUBCALLS else []
        if name == "while":
            inner = [eqn.params["body_jaxpr"].jaxpr, eqn.params["cond_jaxpr"].jaxpr]
        elif name == "cond":
            inner = [b.jaxpr for b in eqn.params["branches"]]
        if any(_calls_out(j, plain) for j in inner) or not (inner or name in plain):
            return True
    return False


def split(tree: Any) -> list[jax.Array]:
    """All elements of a pytree of arrays as one flat list of JAX scalars."""
    leaves = [jnp.asarray(x) for x in jax.tree.leaves(tree)]
    return [x[index] if x.shape else x for x in leaves for index in np.ndindex(x.shape)]


def join(flat: Sequence[Any], like: Any) -> Any:
    """Inverse of `split` for a pytree of the structure of `like`."""
    leaves, structure = jax.tree.flatten(like)
    arrays, at = [], 0
    for leaf in leaves:
        size = math.prod(leaf.shape)
        arrays.append(_stack(flat[at : at + size], leaf))
        at += size
    return jax.tree.unflatten(structure, arrays)


def _stack(scalars: Sequence[Any], aval: Any) -> jax.Array:
    if aval.shape == ():
        return jnp.asarray(scalars[0], dtype=aval.dtype)
    if len(scalars) == 0:
        return jnp.zeros(aval.shape, aval.dtype)
    return jnp.stack([jnp.asarray(x, dtype=aval.dtype) for x in scalars]).reshape(aval.shape)


def cost(jaxpr: Any, known: Sequence[bool] = ()) -> float:
    """Number of scalar operations that `jaxpr` unrolls to; infinite if it holds something that must stay on arrays.

    Arithmetic of constant indices is free. `known` says which arguments are such constants; none by default.
    """
    constants = {v for v in jaxpr.constvars if not np.issubdtype(v.aval.dtype, np.inexact)}
    constants.update(v for v, k in zip(jaxpr.invars, known, strict=False) if k)
    total = 0.0
    for eqn in jaxpr.eqns:
        size = sum(math.prod(v.aval.shape) for v in eqn.outvars)
        name = eqn.primitive.name
        fixed = [isinstance(v, core.Literal) or v in constants for v in eqn.invars]
        if all(fixed) and name in _PLAIN:
            constants.update(eqn.outvars)
        elif name in _SUBCALLS:
            total += cost(_open(eqn.params[_SUBCALLS[name]])[0], fixed)
        elif name == "while":
            total += cost(eqn.params["body_jaxpr"].jaxpr) + cost(eqn.params["cond_jaxpr"].jaxpr)
        elif name == "cond":
            total += sum(cost(b.jaxpr) for b in eqn.params["branches"])
        elif name == "scan":
            return math.inf
        elif name == "dot_general":
            (lhs, _), _ = eqn.params["dimension_numbers"]
            total += 2 * size * math.prod(eqn.invars[0].aval.shape[d] for d in lhs)
        elif name in _REDUCTIONS:
            total += math.prod(eqn.invars[0].aval.shape)
        elif name in _SCATTERS:
            total += math.prod(eqn.invars[2].aval.shape)
        elif name in _REWRITTEN:
            total += cost(_rewritten(eqn).jaxpr)
        elif name in _ELEMENTWISE:
            total += size
        elif name not in _MOVES:
            # Packing and unpacking around a foreign primitive.
            total += size + sum(math.prod(v.aval.shape) for v in eqn.invars)
    return total


def _open(jaxpr: Any) -> tuple[core.Jaxpr, Sequence[Any]]:
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, core.ClosedJaxpr) else (jaxpr, ())


class _Replay:
    """One replay of a trace into a graph."""

    def __init__(self, one: Any) -> None:
        self.graph = Graph(one)

    def evaluate(self, jaxpr: Any, consts: Sequence[Elements], args: Sequence[Elements]) -> list[Elements]:
        env: dict[Any, Elements] = {}
        env.update(zip(jaxpr.constvars, consts, strict=True))
        env.update(zip(jaxpr.invars, args, strict=True))

        def read(atom: Any) -> Elements:
            if isinstance(atom, core.Literal):
                aval: Any = atom.aval
                return self.unpack(np.asarray(atom.val, dtype=aval.dtype))
            return env[atom]

        for eqn in jaxpr.eqns:
            inputs = [read(v) for v in eqn.invars]
            env.update(zip(eqn.outvars, self._apply(eqn, inputs), strict=True))
        return [read(v) for v in jaxpr.outvars]

    def unpack(self, x: Any) -> Elements:
        """The elements of an array; constants stay known."""
        shape = np.shape(x)
        out = np.empty(shape, dtype=object)
        given: Any = x
        # Also arrays that JAX holds: as constants inside one machine function they make XLA abort.
        known: Any = None if isinstance(x, Tracer) else np.asarray(x)
        for index in np.ndindex(shape):
            out[index] = known[index] if known is not None else self.graph.leaf(given[index] if shape else given)
        return out

    def restore(self, flat: Sequence[Any], avals: Sequence[Any]) -> list[Elements]:
        """Elements of the given shapes from one flat list of JAX scalars."""
        out, at = [], 0
        for aval in avals:
            size = math.prod(aval.shape)
            elements = np.empty(size, dtype=object)
            for k in range(size):
                elements[k] = self.graph.leaf(flat[at + k])
            out.append(elements.reshape(aval.shape))
            at += size
        return out

    def flatten(self, values: Sequence[Elements], avals: Sequence[Any]) -> list[jax.Array]:
        """All elements as one flat list of JAX scalars."""
        wanted = [e for v in values for e in v.flat]
        dtypes = [a.dtype for v, a in zip(values, avals, strict=True) for _ in v.flat]
        return [jnp.asarray(e, dtype=d) for e, d in zip(self.graph.emit(wanted), dtypes, strict=True)]

    def _apply(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        name, params = eqn.primitive.name, eqn.params
        if name in _SUBCALLS:
            inner, consts = _open(params[_SUBCALLS[name]])
            return self.evaluate(inner, [self.unpack(c) for c in consts], inputs)
        if name in _MOVES:
            moved = _MOVES[name](eqn, inputs)
            if moved is not None:
                return moved
        elif name in _ELEMENTWISE:
            return [self._elementwise(eqn, inputs)]
        elif name in _REDUCTIONS and inputs[0].size:
            return [self._reduce(_REDUCTIONS[name], params["axes"], inputs[0])]
        elif name in _SCATTERS:
            scattered = self._scatter(eqn, *inputs)
            if scattered is not None:
                return [scattered]
        elif name in _REWRITTEN:
            return self.evaluate(_rewritten(eqn).jaxpr, [], inputs)
        elif name == "dot_general":
            return [self._dot_general(eqn, *inputs)]
        elif name == "while":
            return self._while(eqn, inputs)
        elif name == "cond":
            return self._cond(eqn, inputs)
        return self._foreign(eqn, inputs)

    def _foreign(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        packed = [_stack(self.flatten([x], [v.aval]), v.aval) for x, v in zip(inputs, eqn.invars, strict=True)]
        outs = eqn.primitive.bind(*packed, **eqn.params)
        return [self.unpack(o) for o in (outs if eqn.primitive.multiple_results else [outs])]

    def _elementwise(self, eqn: Any, inputs: list[Elements]) -> Elements:
        shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
        out = np.empty(shape, dtype=object)
        params = dict(eqn.params)
        if "sharding" in params:
            params["sharding"] = None
        # Dimensions of size one are stretched, as the primitives themselves do.
        inputs = [np.broadcast_to(x, shape) for x in inputs]
        if eqn.primitive.name == "add_any":
            # The sum that differentiation makes, where it does not know the types.
            add = self.graph.binary
            for index in np.ndindex(shape):
                out[index] = add("add", *(x[index] for x in inputs))
            return out
        for index in np.ndindex(shape):
            out[index] = self.graph.operation(eqn.primitive, params, dtype, [x[index] for x in inputs])
        return out

    def _reduce(self, name: str, axes: Sequence[int], x: Elements) -> Elements:
        kept = [d for d in range(x.ndim) if d not in axes]
        moved = x.transpose(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1)
        out = np.empty(moved.shape[:-1], dtype=object)
        for index in np.ndindex(out.shape):
            total = moved[index][0]
            for term in moved[index][1:]:
                total = self.graph.binary(name, total, term)
            out[index] = total
        return out

    def _scatter(self, eqn: Any, x: Elements, indices: Elements, updates: Elements) -> Elements | None:
        """Known indices: combine each update with the element that it goes to."""
        if not all(is_known(i) for i in indices.flat):
            return None
        operation = _SCATTERS[eqn.primitive.name]
        out = x.reshape(-1).copy()
        for target, update in zip(_targets(eqn, x.shape, indices).flat, updates.flat, strict=True):
            # Zero marks "out of bounds, dropped".
            if target:
                out[target - 1] = self.graph.binary(operation, out[target - 1], update)
        return out.reshape(x.shape)

    def _dot_general(self, eqn: Any, a: Elements, b: Elements) -> Elements:
        (contract_a, contract_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
        free_a = [d for d in range(a.ndim) if d not in (*contract_a, *batch_a)]
        free_b = [d for d in range(b.ndim) if d not in (*contract_b, *batch_b)]
        nbatch = math.prod(a.shape[d] for d in batch_a)
        nfree_a = math.prod(a.shape[d] for d in free_a)
        nfree_b = math.prod(b.shape[d] for d in free_b)
        ncontract = math.prod(a.shape[d] for d in contract_a)
        A = a.transpose(*batch_a, *free_a, *contract_a).reshape(nbatch, nfree_a, ncontract)
        B = b.transpose(*batch_b, *free_b, *contract_b).reshape(nbatch, nfree_b, ncontract)
        out = np.empty((nbatch, nfree_a, nfree_b), dtype=object)
        binary = self.graph.binary
        for n, i, j in np.ndindex(out.shape):
            total: Any = np.float64(0.0)
            for k in range(ncontract):
                total = binary("add", total, binary("mul", A[n, i, k], B[n, j, k]))
            out[n, i, j] = total
        return out.reshape(eqn.outvars[0].aval.shape)

    def _while(self, eqn: Any, inputs: list[Elements]) -> list[Elements]:
        p = eqn.params
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        consts, start = inputs[: nc + nb], inputs[nc + nb :]
        avals = [v.aval for v in eqn.outvars]
        captured = self._captured(consts)

        def run(closed: Any, which: slice, flat: list[Any]) -> tuple[_Replay, list[Elements]]:
            inner = _Replay(self.graph.one)
            fixed = inner.adopt(captured[which])
            carried = inner.restore(flat, avals)
            return inner, inner.evaluate(closed.jaxpr, [inner.unpack(c) for c in closed.consts], [*fixed, *carried])

        def cond(flat: list[Any]) -> jax.Array:
            inner, outs = run(p["cond_jaxpr"], slice(0, nc), flat)
            return inner.graph.emit([outs[0][()]])[0]

        def body(flat: list[Any]) -> list[jax.Array]:
            inner, outs = run(p["body_jaxpr"], slice(nc, None), flat)
            return inner.flatten(outs, avals)

        return self.restore(jax.lax.while_loop(cond, body, self.flatten(start, avals)), avals)

    def _cond(self, eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
        index, *operands = inputs
        branches = eqn.params["branches"]
        if is_known(index[()]):
            chosen = branches[int(index[()])]
            return self.evaluate(chosen.jaxpr, [self.unpack(c) for c in chosen.consts], operands)
        avals = [v.aval for v in eqn.outvars]
        captured = self._captured(operands)

        def run(branch: Any) -> list[jax.Array]:
            inner = _Replay(self.graph.one)
            outs = inner.evaluate(branch.jaxpr, [inner.unpack(c) for c in branch.consts], inner.adopt(captured))
            return inner.flatten(outs, avals)

        (which,) = self.graph.emit([index[()]])
        flat = jax.lax.switch(jnp.asarray(which, jnp.int32), [lambda b=b: run(b) for b in branches])
        return self.restore(flat, avals)

    def _captured(self, values: Sequence[Elements]) -> list[Elements]:
        """The same elements as known scalars and JAX scalars, ready to be used in another graph."""
        out = []
        for value in values:
            copy = np.empty(value.shape, dtype=object)
            for index, scalar in zip(np.ndindex(value.shape), self.graph.emit(list(value.flat)), strict=True):
                copy[index] = scalar
            out.append(copy)
        return out

    def adopt(self, values: Sequence[Elements]) -> list[Elements]:
        """Elements of this graph from `_captured` ones."""
        out = []
        for value in values:
            copy = np.empty(value.shape, dtype=object)
            for index in np.ndindex(value.shape):
                copy[index] = value[index] if is_known(value[index]) else self.graph.leaf(value[index])
            out.append(copy)
        return out


# --- copying: nothing is left of these in the compiled step ----------------------------------------------------------


def _broadcast_in_dim(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    shape, dims = eqn.params["shape"], eqn.params["broadcast_dimensions"]
    x = inputs[0]
    aligned = [1] * len(shape)
    for source, target in enumerate(dims):
        aligned[target] = x.shape[source]
    return [np.broadcast_to(x.reshape(aligned), shape)]


def _slice(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    p = eqn.params
    strides = p["strides"] or (1,) * len(p["start_indices"])
    return [inputs[0][tuple(slice(*w) for w in zip(p["start_indices"], p["limit_indices"], strides, strict=True))]]


def _dynamic_slice(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    x, *starts = inputs
    if not all(is_known(s[()]) for s in starts):
        return None
    sizes = eqn.params["slice_sizes"]
    begin = [min(max(int(s[()]), 0), n - m) for s, n, m in zip(starts, x.shape, sizes, strict=True)]
    return [x[tuple(slice(b, b + m) for b, m in zip(begin, sizes, strict=True))]]


def _split(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    ends = np.cumsum(eqn.params["sizes"])[:-1]
    return list(np.split(inputs[0], ends, axis=eqn.params["axis"]))


def _pad(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    x, fill = inputs
    config = eqn.params["padding_config"]
    if any(low < 0 or high < 0 for low, high, _ in config):
        return None
    out = np.empty(eqn.outvars[0].aval.shape, dtype=object)
    out[...] = fill[()]
    out[
        tuple(
            slice(low, low + (n - 1) * (inner + 1) + 1 if n else low, inner + 1)
            for (low, _, inner), n in zip(config, x.shape, strict=True)
        )
    ] = x
    return [out]


def _gather(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    """Known indices: gather the positions instead of the values."""
    x, indices = inputs
    if not all(is_known(i) for i in indices.flat):
        return None
    if x.ndim == 1 and eqn.params["slice_sizes"] == (1,):
        # Single elements of a vector, without compiling a gather for each shape.
        at = indices.reshape(eqn.outvars[0].aval.shape).astype(np.int64)
        return [x[at]] if ((at >= 0) & (at < x.size)).all() else None
    positions = np.arange(1, x.size + 1, dtype=np.int64).reshape(x.shape)
    with jax.ensure_compile_time_eval():
        # Zero marks "out of bounds, filled"; only in-bounds gathers are replayed on scalars.
        params = {**eqn.params, "fill_value": 0}
        picked = np.asarray(eqn.primitive.bind(jnp.asarray(positions), jnp.asarray(indices.astype(np.int64)), **params))
    return None if (picked == 0).any() else [x.reshape(-1)[picked - 1]]


def _scatter_values(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    """Known indices: scatter the positions instead of the values."""
    x, indices, updates = inputs
    if not all(is_known(i) for i in indices.flat):
        return None
    both = np.concatenate((x.reshape(-1), updates.reshape(-1)))
    positions = np.arange(both.size)
    with jax.ensure_compile_time_eval():
        picked = eqn.primitive.bind(
            jnp.asarray(positions[: x.size].reshape(x.shape)),
            jnp.asarray(indices.astype(np.int64)),
            jnp.asarray(positions[x.size :].reshape(updates.shape)),
            **eqn.params,
        )
    return [both[np.asarray(picked)]]


def _targets(eqn: Any, shape: tuple[int, ...], indices: Elements) -> np.ndarray:
    """Where each update goes: one plus its position in the flattened operand, or 0 if it is out of bounds.

    That is the gather of positions, which is the transpose of adding updates.
    """
    positions = np.arange(1.0, math.prod(shape) + 1).reshape(shape)
    with jax.ensure_compile_time_eval():
        known = jnp.asarray(indices.astype(np.int64))
        add = lambda u: jax.lax.scatter_add_p.bind(jnp.zeros(shape), known, u, **eqn.params)  # noqa: E731
        (found,) = jax.linear_transpose(add, jnp.zeros(eqn.invars[2].aval.shape))(jnp.asarray(positions))
    return np.asarray(found).astype(np.int64)


def _dynamic_update_slice(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    x, update, *starts = inputs
    if not all(is_known(s[()]) for s in starts):
        return None
    begin = [min(max(int(s[()]), 0), n - m) for s, n, m in zip(starts, x.shape, update.shape, strict=True)]
    out = x.copy()
    out[tuple(slice(b, b + m) for b, m in zip(begin, update.shape, strict=True))] = update
    return [out]


_MOVES: dict[str, Callable[[Any, list[Elements]], list[Elements] | None]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": lambda e, x: [x[0].reshape(e.params["new_sizes"])],
    "transpose": lambda e, x: [x[0].transpose(e.params["permutation"])],
    "squeeze": lambda e, x: [x[0].reshape(e.outvars[0].aval.shape)],
    "expand_dims": lambda e, x: [x[0].reshape(e.outvars[0].aval.shape)],
    "concatenate": lambda e, x: [np.concatenate(x, axis=e.params["dimension"])],
    "stack": lambda e, x: [np.stack(x, axis=e.params["axis"])],
    "unstack": lambda e, x: [np.take(x[0], i, axis=e.params["axis"]) for i in range(x[0].shape[e.params["axis"]])],
    "rev": lambda e, x: [np.flip(x[0], e.params["dimensions"])],
    "iota": lambda e, x: [
        _constants(np.broadcast_to(_iota(e), e.outvars[0].aval.shape).astype(e.outvars[0].aval.dtype))
    ],
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "split": _split,
    "pad": _pad,
    "gather": _gather,
    "scatter": _scatter_values,
    "dynamic_update_slice": _dynamic_update_slice,
    # Says where XLA must not merge array operations; scalars are cut elsewhere, see `Graph.emit`.
    "optimization_barrier": lambda _, x: x,
}


def _iota(eqn: Any) -> np.ndarray:
    shape, dimension = eqn.params["shape"], eqn.params["dimension"]
    return np.arange(shape[dimension]).reshape([-1 if d == dimension else 1 for d in range(len(shape))])


def _constants(x: np.ndarray) -> Elements:
    out = np.empty(x.shape, dtype=object)
    for index in np.ndindex(x.shape):
        out[index] = x[index]
    return out


# --- rewriting: primitives replaced by several simpler ones ----------------------------------------------------------


def _rewritten(eqn: Any) -> core.ClosedJaxpr:
    """The equation in terms of primitives that have rules."""
    (x,) = (v.aval for v in eqn.invars)
    function = _REWRITTEN[eqn.primitive.name]
    return jax.make_jaxpr(lambda x: function(x, **eqn.params))(jax.ShapeDtypeStruct(x.shape, x.dtype))


def _cumulative(combine: Callable) -> Callable:
    def run(x: jax.Array, axis: int, reverse: bool) -> jax.Array:
        slices = [jax.lax.index_in_dim(x, k, axis) for k in range(x.shape[axis])]
        done = list(itertools.accumulate(reversed(slices) if reverse else slices, combine))
        return jax.lax.concatenate(done[::-1] if reverse else done, axis) if done else x

    return run


def _position_of(first: Callable) -> Callable:
    """The position of the largest or smallest element; the first NaN counts as such."""

    def run(x: jax.Array, axes: tuple[int], index_dtype: Any) -> jax.Array:
        (axis,) = axes
        best, *others = (jax.lax.index_in_dim(x, k, axis, keepdims=False) for k in range(x.shape[axis]))
        at = jnp.zeros(best.shape, index_dtype)
        for k, other in enumerate(others, 1):
            better = first(other, best) | ((other != other) & (best == best))
            best, at = jnp.where(better, other, best), jnp.where(better, index_dtype.type(k), at)
        return at

    return run


_REWRITTEN: dict[str, Callable] = {
    "cumsum": _cumulative(jax.lax.add),
    "cumprod": _cumulative(jax.lax.mul),
    "cummax": _cumulative(jax.lax.max),
    "cummin": _cumulative(jax.lax.min),
    "argmax": _position_of(jax.lax.gt),
    "argmin": _position_of(jax.lax.lt),
}

_PLAIN = frozenset((*_ELEMENTWISE, *_MOVES, *_REDUCTIONS, *_SCATTERS, *_REWRITTEN, "dot_general"))
"""Primitives that need no library."""

_ONE_FUNCTION = _PLAIN - {"scatter", *_SCATTERS}
"""Of these, what one machine function may hold: a scatter to unknown places becomes a loop of its own."""
