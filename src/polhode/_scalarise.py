"""Run small-array programs on scalars.

XLA compiles a loop over a few scalars to straight machine code; the same loop over arrays of three or four
elements pays for a buffer and a kernel at every concatenation. Measured on the heavy top with RKMK4: 1.6 µs a step
on small arrays, 0.09 µs on scalars. So the driver traces one step on arrays, as the methods and systems are
written, and `scalarise` replays that trace element by element: copying primitives (slices, stacks, transposes)
vanish, products with structural zeros and ones are dropped, small matrix products are unrolled.

Primitives without a rule here are bound on packed arrays, so every program runs; it is only not faster then.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.experimental.xla_metadata import set_xla_metadata
from jax.extend import core

# An `Elements` is a NumPy object array with the shape of the value it stands for. Each element is either a NumPy
# scalar (known while tracing) or a JAX scalar.
Elements = np.ndarray

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
    """abs acos acosh add and asin asinh atan atan2 atanh cbrt ceil clamp convert_element_type copy copy_p cos cosh div
    eq erf erf_inv erfc exp exp2 expm1 floor ge gt integer_pow is_finite le lgamma log log1p logistic lt max min mul ne
    neg nextafter not or pow real rem round rsqrt select_n shift_left shift_right_arithmetic shift_right_logical sign
    sin sinh sqrt square stop_gradient sub tan tanh xor""".split()
)

_REDUCTIONS = {
    "reduce_sum": "add",
    "reduce_max": "max",
    "reduce_min": "min",
    "reduce_prod": "mul",
    "reduce_and": "and",
    "reduce_or": "or",
}

_NUMPY: dict[str, Callable] = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": lambda a, b: a // b if isinstance(a, np.integer) else a / b,
    "neg": np.negative,
    "max": np.maximum,
    "min": np.minimum,
    "abs": np.abs,
    "sqrt": np.sqrt,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "not": np.invert,
    "copy": lambda a: a,
    "copy_p": lambda a: a,
    "stop_gradient": lambda a: a,
}


class Program:
    """`fun` traced once and replayed on flat lists of scalars.

    **Arguments:**

    - `fun`: a function of pytrees of arrays.
    - `examples`: arguments to trace it with; only their structure, shapes and dtypes matter.
    """

    def __init__(self, fun: Callable, *examples: Any) -> None:
        self.closed, self.out_shape = jax.make_jaxpr(fun, return_shape=True)(*examples)
        self.cost = cost(self.closed.jaxpr)

    def __call__(self, *args: Any) -> Any:
        """The result on arrays, computed on scalars."""
        outs = _evaluate(self.closed.jaxpr, self._consts(), [unpack(x) for x in jax.tree.leaves(args)])
        packed = [pack(o, v.aval) for o, v in zip(outs, self.closed.jaxpr.outvars, strict=True)]
        return jax.tree.unflatten(jax.tree.structure(self.out_shape), packed)

    def on_scalars(self, flat: Sequence[Any]) -> list[jax.Array]:
        """From the flat list of all argument elements to that of all result elements."""
        jaxpr = self.closed.jaxpr
        outs = _evaluate(jaxpr, self._consts(), _restore(flat, [v.aval for v in jaxpr.invars]))
        return flatten(outs, [v.aval for v in jaxpr.outvars])

    def _consts(self) -> list[Elements]:
        return [unpack(c) for c in self.closed.consts]


def scalarise(fun: Callable, limit: float) -> Callable:
    """`fun` with its arithmetic done on scalars, or `fun` itself if that takes more than `limit` operations."""

    def scalarised(*args: Any) -> Any:
        program = Program(fun, *args)
        if program.cost > limit:
            return fun(*args)
        return join(_one_kernel(program.on_scalars, split(args)), program.out_shape)

    return scalarised


def _one_kernel(fun: Callable, flat: list[jax.Array]) -> list[jax.Array]:
    """Have XLA's CPU backend compile `fun`, loops included, into one machine function.

    It does so by itself for loops that touch less than a kilobyte; a larger scalar loop would otherwise run as
    hundreds of separately called kernels, ten to thirty times slower. Other backends ignore the attributes.
    """
    with set_xla_metadata(xla_cpu_small_call="true", inlineable="false"):
        return jax.jit(fun)(flat)


def split(tree: Any) -> list[jax.Array]:
    """All elements of a pytree of arrays as one flat list of JAX scalars."""
    leaves = [jnp.asarray(x) for x in jax.tree.leaves(tree)]
    return flatten([unpack(x) for x in leaves], leaves)


def join(flat: Sequence[Any], like: Any) -> Any:
    """Inverse of `split` for a pytree of the structure of `like`."""
    leaves, structure = jax.tree.flatten(like)
    parts = _restore(flat, leaves)
    return jax.tree.unflatten(structure, [pack(p, x) for p, x in zip(parts, leaves, strict=True)])


def cost(jaxpr: core.Jaxpr) -> float:
    """Number of scalar operations that `jaxpr` unrolls to; infinite if it holds something that must stay on arrays."""
    total = 0.0
    for eqn in jaxpr.eqns:
        size = sum(math.prod(v.aval.shape) for v in eqn.outvars)
        name = eqn.primitive.name
        if name in _SUBCALLS:
            total += cost(_open(eqn.params[_SUBCALLS[name]])[0])
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
        elif name in _ELEMENTWISE:
            total += size
        elif name not in _MOVES:
            # Packing and unpacking around a foreign primitive.
            total += size + sum(math.prod(v.aval.shape) for v in eqn.invars)
    return total


def unpack(x: Any) -> Elements:
    """The elements of an array; constants stay known."""
    shape = np.shape(x)
    out = np.empty(shape, dtype=object)
    if isinstance(x, np.ndarray | np.generic | float | int | bool):
        known = np.asarray(x)
        for index in np.ndindex(shape):
            out[index] = known[index]
    elif isinstance(x, jax.Array) or shape == ():
        for index in np.ndindex(shape):
            out[index] = x[index] if shape else x
    else:
        raise TypeError(f"cannot split {type(x)} into scalars")
    return out


def pack(elements: Elements, aval: Any) -> jax.Array:
    """The array of given shape and dtype with these elements."""
    if elements.shape == ():
        return jnp.asarray(elements[()], dtype=aval.dtype)
    if elements.size == 0:
        return jnp.zeros(elements.shape, aval.dtype)
    if all(_known(e) for e in elements.flat):
        return jnp.asarray(elements.astype(aval.dtype))
    return jnp.stack([jnp.asarray(e, dtype=aval.dtype) for e in elements.flat]).reshape(elements.shape)


def _known(element: Any) -> bool:
    return isinstance(element, np.generic)


def _open(jaxpr: Any) -> tuple[core.Jaxpr, Sequence[Any]]:
    return (jaxpr.jaxpr, jaxpr.consts) if isinstance(jaxpr, core.ClosedJaxpr) else (jaxpr, ())


def _evaluate(jaxpr: core.Jaxpr, consts: Sequence[Elements], args: Sequence[Elements]) -> list[Elements]:
    env: dict[Any, Elements] = {}
    env.update(zip(jaxpr.constvars, consts, strict=True))
    env.update(zip(jaxpr.invars, args, strict=True))

    def read(atom: Any) -> Elements:
        if isinstance(atom, core.Literal):
            return unpack(np.asarray(atom.val, dtype=atom.aval.dtype))
        return env[atom]

    for eqn in jaxpr.eqns:
        inputs = [read(v) for v in eqn.invars]
        for var, value in zip(eqn.outvars, _apply(eqn, inputs), strict=True):
            env[var] = value
    return [read(v) for v in jaxpr.outvars]


def _apply(eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
    name, params = eqn.primitive.name, eqn.params
    if name in _SUBCALLS:
        inner, consts = _open(params[_SUBCALLS[name]])
        return _evaluate(inner, [unpack(c) for c in consts], inputs)
    if name in _MOVES:
        moved = _MOVES[name](eqn, inputs)
        if moved is not None:
            return moved
    elif name in _ELEMENTWISE:
        return [_elementwise(eqn, inputs)]
    elif name in _REDUCTIONS:
        return [_reduce(_REDUCTIONS[name], params["axes"], inputs[0])]
    elif name == "dot_general":
        return [_dot_general(eqn, *inputs)]
    elif name == "while":
        return _while(eqn, inputs)
    elif name == "cond":
        return _cond(eqn, inputs)
    return _foreign(eqn, inputs)


def _foreign(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    packed = [pack(x, v.aval) for x, v in zip(inputs, eqn.invars, strict=True)]
    outs = eqn.primitive.bind(*packed, **eqn.params)
    return [unpack(o) for o in (outs if eqn.primitive.multiple_results else [outs])]


# --- arithmetic ------------------------------------------------------------------------------------------------------


def _elementwise(eqn: Any, inputs: list[Elements]) -> Elements:
    shape, dtype = eqn.outvars[0].aval.shape, eqn.outvars[0].aval.dtype
    out = np.empty(shape, dtype=object)
    name, params = eqn.primitive.name, dict(eqn.params)
    if "sharding" in params:
        params["sharding"] = None
    for index in np.ndindex(shape):
        operands = [x[index] if x.shape else x[()] for x in inputs]
        out[index] = _scalar_op(eqn.primitive, name, params, dtype, operands)
    return out


def _scalar_op(primitive: Any, name: str, params: dict, dtype: Any, operands: list[Any]) -> Any:
    if name == "select_n" and _known(operands[0]):
        return operands[1 + int(operands[0])]
    if name == "select_n" and all(o is operands[1] for o in operands[2:]):
        return operands[1]
    if all(_known(o) for o in operands):
        if name == "convert_element_type":
            return operands[0].astype(dtype)
        if name == "integer_pow":
            return dtype.type(operands[0] ** params["y"])
        if name in _NUMPY:
            return dtype.type(_NUMPY[name](*operands))
    if name in ("add", "sub", "mul", "div") and np.issubdtype(dtype, np.floating):
        short = _shortcut(name, *operands)
        if short is not None:
            return short
    return primitive.bind(*operands, **params)


def _shortcut(name: str, a: Any, b: Any) -> Any | None:
    """Structural zeros and ones drop out; None if nothing can be saved."""
    zero_a, zero_b = _known(a) and a == 0, _known(b) and b == 0
    if name == "add":
        return b if zero_a else a if zero_b else None
    if name == "sub":
        return a if zero_b else -b if zero_a else None
    if name == "mul":
        if zero_a or zero_b:
            return np.float64(0.0)
        return b if _known(a) and a == 1 else a if _known(b) and b == 1 else None
    if zero_a and not zero_b:
        return np.float64(0.0)
    return a if _known(b) and b == 1 else None


def _binary(name: str, a: Any, b: Any) -> Any:
    if _known(a) and _known(b):
        return type(a)(_NUMPY[name](a, b))
    if name in ("add", "mul"):
        short = _shortcut(name, a, b)
        if short is not None:
            return short
    return _BINARY[name](a, b)


_BINARY: dict[str, Callable] = {
    "add": jax.lax.add,
    "mul": jax.lax.mul,
    "max": jax.lax.max,
    "min": jax.lax.min,
    "and": jax.lax.bitwise_and,
    "or": jax.lax.bitwise_or,
}


def _reduce(name: str, axes: Sequence[int], x: Elements) -> Elements:
    kept = [d for d in range(x.ndim) if d not in axes]
    moved = x.transpose(*kept, *axes).reshape(*(x.shape[d] for d in kept), -1)
    out = np.empty(moved.shape[:-1], dtype=object)
    for index in np.ndindex(out.shape):
        total = moved[index][0]
        for term in moved[index][1:]:
            total = _binary(name, total, term)
        out[index] = total
    return out


def _dot_general(eqn: Any, a: Elements, b: Elements) -> Elements:
    (contract_a, contract_b), (batch_a, batch_b) = eqn.params["dimension_numbers"]
    free_a = [d for d in range(a.ndim) if d not in (*contract_a, *batch_a)]
    free_b = [d for d in range(b.ndim) if d not in (*contract_b, *batch_b)]
    shape = eqn.outvars[0].aval.shape
    nbatch = math.prod(a.shape[d] for d in batch_a)
    ncontract = math.prod(a.shape[d] for d in contract_a)
    A = a.transpose(*batch_a, *free_a, *contract_a).reshape(nbatch, -1, ncontract)
    B = b.transpose(*batch_b, *free_b, *contract_b).reshape(nbatch, -1, ncontract)
    out = np.empty((nbatch, A.shape[1], B.shape[1]), dtype=object)
    for n, i, j in np.ndindex(out.shape):
        total: Any = np.float64(0.0)
        for k in range(ncontract):
            total = _binary("add", total, _binary("mul", A[n, i, k], B[n, j, k]))
        out[n, i, j] = total
    return out.reshape(shape)


# --- copying: nothing is left of these in the compiled step ------------------------------------------------------------


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
    if not all(_known(s[()]) for s in starts):
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
    out[tuple(slice(low, low + (n - 1) * (inner + 1) + 1 if n else low, inner + 1) for (low, _, inner), n in zip(config, x.shape, strict=True))] = x
    return [out]


def _gather(eqn: Any, inputs: list[Elements]) -> list[Elements] | None:
    """Known indices: gather the positions instead of the values."""
    x, indices = inputs
    if not all(_known(i) for i in indices.flat):
        return None
    positions = np.arange(1, x.size + 1, dtype=np.int64).reshape(x.shape)
    with jax.ensure_compile_time_eval():
        # Zero marks "out of bounds, filled"; only in-bounds gathers are replayed on scalars.
        params = {**eqn.params, "fill_value": 0}
        picked = np.asarray(eqn.primitive.bind(jnp.asarray(positions), jnp.asarray(indices.astype(np.int64)), **params))
    return None if (picked == 0).any() else [x.reshape(-1)[picked - 1]]


_MOVES: dict[str, Callable[[Any, list[Elements]], list[Elements] | None]] = {
    "broadcast_in_dim": _broadcast_in_dim,
    "reshape": lambda e, x: [x[0].reshape(e.params["new_sizes"])],
    "transpose": lambda e, x: [x[0].transpose(e.params["permutation"])],
    "squeeze": lambda e, x: [x[0].reshape(e.outvars[0].aval.shape)],
    "expand_dims": lambda e, x: [x[0].reshape(e.outvars[0].aval.shape)],
    "concatenate": lambda e, x: [np.concatenate(x, axis=e.params["dimension"])],
    "rev": lambda e, x: [np.flip(x[0], e.params["dimensions"])],
    "iota": lambda e, x: [
        unpack(np.broadcast_to(_iota(e), e.outvars[0].aval.shape).astype(e.outvars[0].aval.dtype))
    ],
    "slice": _slice,
    "dynamic_slice": _dynamic_slice,
    "split": _split,
    "pad": _pad,
    "gather": _gather,
}


def _iota(eqn: Any) -> np.ndarray:
    shape, dimension = eqn.params["shape"], eqn.params["dimension"]
    return np.arange(shape[dimension]).reshape([-1 if d == dimension else 1 for d in range(len(shape))])


# --- control flow ----------------------------------------------------------------------------------------------------


def _while(eqn: Any, inputs: list[Elements]) -> list[Elements]:
    p = eqn.params
    nc, nb = p["cond_nconsts"], p["body_nconsts"]
    cond_consts, body_consts, start = inputs[:nc], inputs[nc : nc + nb], inputs[nc + nb :]
    avals = [v.aval for v in eqn.outvars]
    cond, body = p["cond_jaxpr"], p["body_jaxpr"]

    def run(closed: Any, consts: list[Elements], flat: list[Any]) -> list[Elements]:
        return _evaluate(closed.jaxpr, [unpack(c) for c in closed.consts], [*consts, *_restore(flat, avals)])

    flat = jax.lax.while_loop(
        lambda flat: run(cond, cond_consts, flat)[0][()],
        lambda flat: flatten(run(body, body_consts, flat), avals),
        flatten(start, avals),
    )
    return _restore(flat, avals)


def _cond(eqn: Any, inputs: list[Elements]) -> Sequence[Elements]:
    index, *operands = inputs
    branches = eqn.params["branches"]

    def run(branch: Any) -> list[Elements]:
        return _evaluate(branch.jaxpr, [unpack(c) for c in branch.consts], operands)

    if _known(index[()]):
        return run(branches[int(index[()])])
    avals = [v.aval for v in eqn.outvars]
    flat = jax.lax.switch(jnp.asarray(index[()], jnp.int32), [lambda b=b: flatten(run(b), avals) for b in branches])
    return _restore(flat, avals)


def flatten(values: Sequence[Elements], avals: Sequence[Any]) -> list[jax.Array]:
    """All elements in one list of JAX scalars, so that they can be carried by a loop."""
    return [jnp.asarray(e, dtype=a.dtype) for v, a in zip(values, avals, strict=True) for e in v.flat]


def _restore(flat: Sequence[Any], avals: Sequence[Any]) -> list[Elements]:
    out, at = [], 0
    for aval in avals:
        size = math.prod(aval.shape)
        elements = np.empty(size, dtype=object)
        for k in range(size):
            elements[k] = flat[at + k]
        out.append(elements.reshape(aval.shape))
        at += size
    return out
