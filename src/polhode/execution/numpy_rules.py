"""Rules by which NumPy carries out JAX's primitives."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from polhode.execution import indexing


class Equation(Protocol):
    """One operation of a program: its primitive's name and parameters, in which programs are functions of lists."""

    name: str
    params: dict[str, Any]

    @property
    def outs(self) -> Sequence[Any]:
        """Shapes and types of the results."""
        ...


Rule = Callable[[Any, list[np.ndarray]], Sequence[Any]]


def _reduced(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    ufunc, values = _REDUCTIONS[eqn.name], x[0]
    if values.size == 0 and eqn.name in ("reduce_max", "reduce_min"):
        return [np.full(eqn.outs[0].shape, -np.inf if eqn.name == "reduce_max" else np.inf)]
    return [ufunc.reduce(values, axis=tuple(eqn.params["axes"]))]


def _quotient(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.inexact):
        return a / b
    # Towards zero; by zero as XLA has it.
    return np.where(b == 0, -1, np.sign(a) * np.sign(b) * (abs(a) // np.where(b == 0, 1, abs(b))))


def _remainder(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    if np.issubdtype(a.dtype, np.inexact):
        return np.fmod(a, b)
    return np.where(b == 0, a, np.fmod(a, np.where(b == 0, 1, b)))


def _clamp(low: np.ndarray, x: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.minimum(np.maximum(x, low), high)


_FEW = 200
"""Rows up to which elimination is done here: SciPy takes half a second to load."""


def _same(x: np.ndarray) -> np.ndarray:
    return x


def _special(name: str) -> Callable[[np.ndarray], np.ndarray]:
    """A function of SciPy's, which is loaded only when it is needed."""

    def evaluate(x: np.ndarray) -> np.ndarray:
        from scipy import special

        return getattr(special, name)(x)

    return evaluate


def _linalg() -> Any:
    from scipy import linalg

    return linalg


NUMPY: dict[str, Callable[..., Any]] = {
    **{name: getattr(np, name) for name in ("sin", "cos", "tan", "sinh", "cosh", "tanh", "exp", "exp2", "expm1")},
    **{name: getattr(np, name) for name in ("log", "log1p", "sqrt", "floor", "ceil", "sign")},
    **{name: getattr(np, f"arc{name[1:]}") for name in ("asin", "acos", "atan", "asinh", "acosh", "atanh")},
    "atan2": np.arctan2,
    "abs": np.abs,
    "neg": np.negative,
    "not": np.invert,
    "is_finite": np.isfinite,
    "square": np.square,
    "cbrt": np.cbrt,
    "rsqrt": lambda a: 1 / np.sqrt(a),
    "real": np.real,
    "imag": np.imag,
    "erf": _special("erf"),
    "erfc": _special("erfc"),
    "lgamma": _special("gammaln"),
    "logistic": _special("expit"),
    "copy": _same,
    "copy_p": _same,
    "stop_gradient": _same,
    "add": np.add,
    "add_any": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "div": _quotient,
    "rem": _remainder,
    "pow": np.power,
    "max": np.maximum,
    "min": np.minimum,
    "clamp": _clamp,
    "nextafter": np.nextafter,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
    "lt": np.less,
    "le": np.less_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
    "eq": np.equal,
    "ne": np.not_equal,
}
"""Primitives that are a function of arrays, element by element."""

_REDUCTIONS: dict[str, Any] = {
    "reduce_sum": np.add,
    "reduce_prod": np.multiply,
    "reduce_max": np.maximum,
    "reduce_min": np.minimum,
    "reduce_and": np.bitwise_and,
    "reduce_or": np.bitwise_or,
}

_ACCUMULATIONS = {
    "cumsum": np.add,
    "cumprod": np.multiply,
    "cummax": np.maximum,
    "cummin": np.minimum,
}


def _accumulated(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    axis, values = eqn.params["axis"], x[0]
    values = np.flip(values, axis) if eqn.params["reverse"] else values
    sums = _ACCUMULATIONS[eqn.name].accumulate(values, axis=axis)
    return [np.flip(sums, axis) if eqn.params["reverse"] else sums]


def _broadcast(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    shape = eqn.params["shape"]
    aligned = [1] * len(shape)
    for source, target in enumerate(eqn.params["broadcast_dimensions"]):
        aligned[target] = x[0].shape[source]
    return [np.broadcast_to(x[0].reshape(aligned), shape)]


def _reshaped(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    return [x[0].reshape(eqn.outs[0].shape)]


def _sliced(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    p = eqn.params
    strides = p["strides"] or (1,) * x[0].ndim
    return [x[0][tuple(slice(*w) for w in zip(p["start_indices"], p["limit_indices"], strides, strict=True))]]


def _window(shape: tuple[int, ...], starts: Sequence[np.ndarray], sizes: Sequence[int]) -> tuple[slice, ...]:
    begin = [min(max(int(s), 0), n - m) for s, n, m in zip(starts, shape, sizes, strict=True)]
    return tuple(slice(b, b + m) for b, m in zip(begin, sizes, strict=True))


def _dynamic_slice(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    return [x[0][_window(x[0].shape, x[1:], eqn.params["slice_sizes"])]]


def _dynamic_update(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    out = x[0].copy()
    out[_window(out.shape, x[2:], x[1].shape)] = x[1]
    return [out]


def _converted(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    values, kind = x[0], np.dtype(eqn.outs[0].dtype)
    if values.dtype.kind != "f" or kind.kind not in "iu":
        return [values.astype(kind)]
    # As XLA: what is too large becomes the largest, and what is no number 0.
    low, high = np.iinfo(kind).min, np.iinfo(kind).max
    out = np.zeros(values.shape, kind)
    out[values <= low], out[values >= float(high)] = low, high
    inside = (values > low) & (values < float(high))
    out[inside] = values[inside].astype(kind)
    return [out]


def _select(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    which, *cases = x
    return [np.where(which, cases[1], cases[0]) if len(cases) == 2 else np.choose(which, cases)]


def _split(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    return np.split(x[0], np.cumsum(eqn.params["sizes"])[:-1], axis=eqn.params["axis"])


def _pad(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    config = eqn.params["padding_config"]
    out = np.full(eqn.outs[0].shape, x[1], x[0].dtype)
    inside = (
        slice(low, low + (n - 1) * (step + 1) + 1 if n else low, step + 1)
        for (low, _, step), n in zip(config, x[0].shape, strict=True)
    )
    out[tuple(inside)] = x[0]
    return [out]


def _power(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    y = eqn.params["y"]
    return [x[0] ** y if y >= 0 else 1.0 / x[0] ** -y]


def _rounded(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    if int(eqn.params["rounding_method"]) == 1:
        return [np.round(x[0])]
    return [np.copysign(np.floor(np.abs(x[0]) + 0.5), x[0])]


def _iota(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    shape, dimension = eqn.params["shape"], eqn.params["dimension"]
    line = np.arange(shape[dimension], dtype=eqn.params["dtype"])
    return [np.broadcast_to(line.reshape([-1 if d == dimension else 1 for d in range(len(shape))]), shape)]


def _position(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    function = np.argmax if eqn.name == "argmax" else np.argmin
    return [function(x[0], axis=eqn.params["axes"][0])]


def _dot(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    # Sums are of the type of the result, which may be wider.
    a, b = (v.astype(eqn.outs[0].dtype, copy=False) for v in x)
    of_a, of_b, of_result = _subscripts(eqn.params["dimension_numbers"], a.ndim, b.ndim)
    return [np.einsum(a, of_a, b, of_b, of_result)]


@functools.lru_cache(maxsize=256)
def _subscripts(numbers: Any, dims_a: int, dims_b: int) -> tuple[list[int], list[int], list[int]]:
    """Of a product: those of its factors and of the result, as `einsum` takes them."""
    (contract_a, contract_b), (batch_a, batch_b) = numbers
    free_a = [d for d in range(dims_a) if d not in (*contract_a, *batch_a)]
    free_b = [d for d in range(dims_b) if d not in (*contract_b, *batch_b)]
    n_batch, n_a, n_b = len(batch_a), len(free_a), len(free_b)
    batch, left = list(range(n_batch)), list(range(n_batch, n_batch + n_a))
    right = list(range(n_batch + n_a, n_batch + n_a + n_b))
    summed = list(range(n_batch + n_a + n_b, n_batch + n_a + n_b + len(contract_a)))
    of_a, of_b = [0] * dims_a, [0] * dims_b
    for places, of, dims in ((batch, of_a, batch_a), (left, of_a, free_a), (summed, of_a, contract_a)):
        for place, d in zip(places, dims, strict=True):
            of[d] = place
    for places, of, dims in ((batch, of_b, batch_b), (right, of_b, free_b), (summed, of_b, contract_b)):
        for place, d in zip(places, dims, strict=True):
            of[d] = place
    return of_a, of_b, [*batch, *left, *right]


def _while(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    p = eqn.params
    n, m = p["cond_nconsts"], p["body_nconsts"]
    of_cond, of_body, state = x[:n], x[n : n + m], list(x[n + m :])
    while np.any(going := np.asarray(p["cond_jaxpr"]([*of_cond, *state])[0])):
        after = p["body_jaxpr"]([*of_body, *state])
        state = _where(going, after, state) if going.ndim else after
    return state


def _where(going: np.ndarray, after: Sequence[Any], before: Sequence[Any]) -> list[np.ndarray]:
    """Of a batch, which members still go on; the others stay as they are."""
    pairs = zip(map(np.asarray, after), before, strict=True)
    return [np.where(going.reshape(going.shape + (1,) * (y.ndim - going.ndim)), y, x) for y, x in pairs]


def _cond(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    branches = eqn.params["branches"]
    return branches[min(max(int(x[0]), 0), len(branches) - 1)](x[1:])


def _scan(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    p = eqn.params
    n_consts, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
    consts, carry, rows = x[:n_consts], x[n_consts : n_consts + n_carry], x[n_consts + n_carry :]
    shapes = eqn.outs[n_carry:]
    stacked = [np.zeros(s.shape, s.dtype) for s in shapes]
    for k in range(length - 1, -1, -1) if p["reverse"] else range(length):
        outs = p["jaxpr"]([*consts, *carry, *(row[k] for row in rows)])
        carry = outs[:n_carry]
        for whole, part in zip(stacked, outs[n_carry:], strict=True):
            whole[k] = part
    return [*carry, *stacked]


def _mapped(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """A scan that carries nothing, whose rows are machine code."""
    count = eqn.params["num_consts"]
    return eqn.params["jaxpr"](x[:count], x[count:])


def _swept(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """A scan whose rows are machine code."""
    p = eqn.params
    n, m = p["num_consts"], p["num_consts"] + p["num_carry"]
    return p["jaxpr"](x[:n], x[n:m], x[m:], p["length"], p["reverse"])


def _linear_solve(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    lengths, programs = eqn.params["const_lengths"], eqn.params["jaxprs"]
    before = lengths.matvec + lengths.vecmat
    return programs.solve([*x[before : before + lengths.solve], *x[sum(lengths) :]])


def _triangular(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    p, (a, b) = eqn.params, x
    options = {"lower": p["lower"], "trans": int(p["transpose_a"]), "unit_diagonal": p["unit_diagonal"]}
    many = zip(a.reshape(-1, *a.shape[-2:]), b.reshape(-1, *b.shape[-2:]), strict=True)
    return [np.array([_substituted(one, rhs, options) for one, rhs in many]).reshape(b.shape)]


def _substituted(a: np.ndarray, b: np.ndarray, options: Any) -> np.ndarray:
    """Not a number, or infinite, where LAPACK would say so; SciPy raises."""
    if not (a.size and (options["unit_diagonal"] or np.diagonal(a).all())):
        return np.full(b.shape, np.nan)
    if len(a) > _FEW:
        return _linalg().solve_triangular(a, b, check_finite=False, **options)
    a, lower = (a.T, not options["lower"]) if options["trans"] else (a, options["lower"])
    x = np.array(b)
    for k in range(len(a)) if lower else reversed(range(len(a))):
        known = slice(None, k) if lower else slice(k + 1, None)
        x[k] -= a[k, known] @ x[known]
        if not options["unit_diagonal"]:
            x[k] /= a[k, k]
    return x


def _lu(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    whole = x[0]
    n, m = whole.shape[-2:]
    factors, pivots, orders = [], [], []
    for a in whole.reshape(-1, n, m):
        both, pivot = (a, np.arange(min(n, m))) if a.size == 0 else _factors(a)
        factors.append(both)
        pivots.append(pivot)
        orders.append(_order(pivot, n))
    shapes = [out.shape for out in eqn.outs]
    return [np.array(part).reshape(shape) for part, shape in zip((factors, pivots, orders), shapes, strict=True)]


def _order(pivot: np.ndarray, n: int) -> np.ndarray:
    """The permutation that exchanging rows one after the other makes."""
    order = np.arange(n)
    for row, other in enumerate(pivot):
        order[[row, other]] = order[[other, row]]
    return order


def _permutation(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    n = eqn.params["permutation_size"]
    orders = [_order(pivot, n) for pivot in x[0].reshape(-1, x[0].shape[-1])]
    return [np.array(orders).reshape(eqn.outs[0].shape)]


def _factors(a: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Both triangles in one array, and the rows that were exchanged."""
    if len(a) > _FEW:
        (factorise,) = _linalg().get_lapack_funcs(("getrf",), (a,))
        return factorise(a)[:2]
    a, pivots = np.array(a), np.zeros(min(a.shape), np.int32)
    for k in range(len(pivots)):
        pivots[k] = k + np.argmax(np.abs(a[k:, k]))
        a[[k, pivots[k]]] = a[[pivots[k], k]]
        if a[k, k] != 0:
            a[k + 1 :, k] /= a[k, k]
        a[k + 1 :, k + 1 :] -= np.outer(a[k + 1 :, k], a[k, k + 1 :])
    return a, pivots


def _platform(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """Which of several programs is meant for this machine: the one for CPUs, or that for all."""
    platforms = eqn.params["platforms"]
    return [next(k for k, names in enumerate(platforms) if names is None or "cpu" in names)]


def _gather(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    values, indices = x
    places = indexing.read(eqn.params, values.shape, indices)
    picked = values.reshape(-1)[np.maximum(places, 0)] if values.size else np.zeros(places.shape, values.dtype)
    if (places == indexing.OUTSIDE).any():
        picked = np.where(places == indexing.OUTSIDE, _filling(eqn.params["fill_value"], values.dtype), picked)
    return [picked]


def _filling(value: Any, dtype: Any) -> Any:
    """The value that JAX puts where an index is outside."""
    if value is not None:
        return value
    if np.issubdtype(dtype, np.inexact):
        return np.nan
    if dtype.kind == "b":
        return True
    return np.iinfo(dtype).max if dtype.kind == "u" else np.iinfo(dtype).min


def _sorted(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """All operands in the order of the first."""
    along = eqn.params["dimension"]
    order = np.argsort(x[0], axis=along, kind="stable")
    return [np.take_along_axis(values, order, along) for values in x]


def _compared(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """In the order of all numbers, in which zeros with signs and what is no number have their places too."""
    a, b = map(_ranks, x)
    return [a < b if eqn.name == "lt_to" else a <= b]


def _ranks(x: np.ndarray) -> np.ndarray:
    if x.dtype.kind != "f":
        return x
    bits = x.view(f"i{x.dtype.itemsize}")
    return np.where(bits < 0, bits ^ np.iinfo(bits.dtype).max, bits)


_SCATTERS = {
    "scatter": None,
    "scatter-add": np.add,
    "scatter-sub": np.subtract,
    "scatter-mul": np.multiply,
    "scatter-min": np.minimum,
    "scatter-max": np.maximum,
}


def _scatter(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    values, indices, updates = x
    places = indexing.written(eqn.params, values.shape, indices, updates.shape)
    inside = places != indexing.OUTSIDE
    out, combine = values.reshape(-1).copy(), _SCATTERS[eqn.name]
    if combine is None:
        out[places[inside]] = updates[inside]
    else:
        combine.at(out, places[inside], updates[inside])
    return [out.reshape(values.shape)]


RULES: dict[str, Rule] = {
    **dict.fromkeys(_REDUCTIONS, _reduced),
    **dict.fromkeys(_ACCUMULATIONS, _accumulated),
    **dict.fromkeys(("reshape", "squeeze", "expand_dims"), _reshaped),
    **dict.fromkeys(("argmax", "argmin"), _position),
    "broadcast_in_dim": _broadcast,
    "transpose": lambda eqn, x: [x[0].transpose(eqn.params["permutation"])],
    "concatenate": lambda eqn, x: [np.concatenate(x, eqn.params["dimension"])],
    "stack": lambda eqn, x: [np.stack(x, eqn.params["axis"])],
    "unstack": lambda eqn, x: list(np.moveaxis(x[0], eqn.params["axis"], 0)),
    "rev": lambda eqn, x: [np.flip(x[0], eqn.params["dimensions"])],
    "convert_element_type": _converted,
    "optimization_barrier": lambda eqn, x: x,
    "select_n": _select,
    "slice": _sliced,
    "dynamic_slice": _dynamic_slice,
    "dynamic_update_slice": _dynamic_update,
    "split": _split,
    "pad": _pad,
    "gather": _gather,
    **dict.fromkeys(_SCATTERS, _scatter),
    "sort": _sorted,
    **dict.fromkeys(("lt_to", "le_to"), _compared),
    "integer_pow": _power,
    "round": _rounded,
    "iota": _iota,
    "dot_general": _dot,
    "while": _while,
    "cond": _cond,
    "scan": _scan,
    "mapped": _mapped,
    "swept": _swept,
    "custom_linear_solve": _linear_solve,
    "triangular_solve": _triangular,
    "lu": _lu,
    "lu_pivots_to_permutation": _permutation,
    "platform_index": _platform,
}
"""Everything else."""


def left_to_jax(eqn: Equation) -> bool:
    """Whether an operation is one of the few cases that the rule of its primitive doesn't know."""
    p = eqn.params
    if eqn.name == "scatter":
        return p.get("update_jaxpr") is not None
    if eqn.name == "sort":
        return p["num_keys"] != 1
    if eqn.name == "triangular_solve":
        return not p["left_side"] or p["conjugate_a"]
    return eqn.name == "pad" and any(low < 0 or high < 0 for low, high, _ in p["padding_config"])
