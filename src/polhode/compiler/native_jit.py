"""Functions that are called many times with other numbers: machine code where possible."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, TypeVar, cast

import equinox as eqx
import jax
import numpy as np
from jax.extend import core

from polhode.compiler import size_limits
from polhode.compiler.array_program import Equation, Value
from polhode.compiler.cache.disk_cache import Serialiser
from polhode.compiler.cache.program_cache import find_program, xla_jit
from polhode.compiler.jaxprs import parameters
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.loops.row_scan import codes
from polhode.compiler.numpy.interpreter import Interpreter, UnsupportedNumPyOperation, from_jaxpr
from polhode.compiler.numpy_jit import numpy_jit
from polhode.compiler.placement import on_host
from polhode.compiler.primitives.lowering import MACHINE_CODE, lower
from polhode.jax_context import inside_transformation

T = TypeVar("T")


def native_jit(function: Callable[..., T], *consts: Any) -> Callable[..., T]:
    """`function(*consts, *others)`, one of this library that captures nothing, as a function of the others.

    These must have the same shapes and types in all calls: the program is looked up at the first call, which takes
    longer than all others. On the host it is machine code, which returns NumPy arrays: all of it, or, of large
    programs, the loops over rows of equal elements, while NumPy evaluates the rest. Where neither is possible, NumPy
    evaluates everything. Programs are cached on disk. Inside JAX's transformations the function is called directly.
    """
    if inside_transformation():
        return functools.partial(function, *consts)
    ready: Callable[..., T] | None = None

    def call(*others: Any) -> T:
        nonlocal ready
        if ready is None:
            ready = _prepare(function, consts, others)
        return ready(*others)

    return call


def _prepare(function: Callable[..., T], consts: tuple[Any, ...], others: tuple[Any, ...]) -> Callable[..., T]:
    if not on_host((consts, others)):
        return functools.partial(cast(Callable[..., T], _xla_jit(function)), *consts)
    (program, structure), (arrays, _) = find_program(_native, (function, consts), others, serialiser=_SERIALISER)
    if program is None:
        return functools.partial(cast(Callable[..., T], _numpy_jit(function)), *consts)
    call = _whole(program, arrays) if isinstance(program, RowMap) else _by_rows(program, structure, arrays)
    return lambda *others: call(eqx.filter(others, eqx.is_array))


def _whole(program: RowMap, consts: Any) -> Callable[[Any], Any]:
    """A call as a map over a single row."""
    arguments = program.arguments(consts)

    def call(others: Any) -> Any:
        row = jax.tree.map(lambda x: np.asarray(x)[None], others)
        return jax.tree.map(lambda x: x[0], program.rows(arguments, row))

    return call


def _by_rows(program: Interpreter, structure: Any, consts: Any) -> Callable[[Any], Any]:
    arrays = list(map(np.asarray, jax.tree.leaves(consts)))

    def call(others: Any) -> Any:
        with np.errstate(all="ignore"):
            outs = program([*arrays, *map(np.asarray, jax.tree.leaves(others))])
        return jax.tree.unflatten(structure, outs)

    return call


_xla_jit: Any = functools.cache(xla_jit)
_numpy_jit: Any = functools.cache(numpy_jit)


def _native(inputs: Any, rest: Any) -> tuple[RowMap | Interpreter | None, Any]:
    """The program, and the structure of its result where it returns a list of leaves."""

    def on_arrays(arrays: Any, row: Any) -> Any:
        (function, consts), others = eqx.combine((arrays, row), rest)
        return function(*consts, *others)

    try:
        if not size_limits.is_long(inputs):
            return RowMap.of(on_arrays, *inputs), None
        jaxpr, shape = jax.make_jaxpr(on_arrays, return_shape=True)(*inputs)
        program = from_jaxpr(lower(jaxpr, MACHINE_CODE))
        _compile_rows(program)
        return program, jax.tree.structure(shape)
    except (UnsupportedNativeOperation, UnsupportedNumPyOperation):
        return None, None


def _compile_rows(program: Interpreter) -> None:
    """Compiles all loops over rows to machine code."""
    for equation in program.equations:
        if equation.name == "scan" and not equation.params["num_carry"]:
            equation.name, equation.params["jaxpr"] = "mapped", _rows_of(equation)


def _rows_of(scan: Equation) -> RowMap:
    """The body of a scan, with known inputs as constants: indices must be known at compile time."""
    origin: Any = scan.origin
    params = parameters(origin)
    body, count = core.jaxpr_as_fun(params["jaxpr"]), params["num_consts"]
    examples = [jax.ShapeDtypeStruct(a.shape, a.dtype) for a in params["jaxpr"].in_avals]

    def row_function(given_consts: Any, row: Any) -> Any:
        consts = [
            x if isinstance(constant, Value) else constant
            for x, constant in zip(given_consts, scan.inputs, strict=False)
        ]
        return body(*consts, *row)

    return RowMap.of(row_function, examples[:count], examples[count:])


def _dump(result: tuple[RowMap | Interpreter | None, Any]) -> Any:
    program, structure = result
    if isinstance(program, RowMap):
        return program.code, program.out
    if program is None or not program.is_portable:
        return None
    return program, jax.tree.unflatten(structure, range(structure.num_leaves))


def _load(state: Any, inputs: Any) -> tuple[RowMap | Interpreter, Any]:
    first, second = state
    return (
        (RowMap(first, second, *inputs), None)
        if isinstance(first, CompiledFunction)
        else (first, jax.tree.structure(second))
    )


def _watch(result: tuple[RowMap | Interpreter | None, Any], write: Callable[[], None]) -> None:
    program = result[0]
    for code in [] if program is None else [program.code] if isinstance(program, RowMap) else codes(program):
        code.when_improved = write


_SERIALISER: Serialiser[tuple[RowMap | Interpreter | None, Any]] = Serialiser(
    dump=_dump,
    load=_load,
    watch=_watch,
)
