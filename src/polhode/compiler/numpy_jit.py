"""Programs that run once, evaluated with NumPy instead of compiled.

Compiling the checks of a model, its consistent start and a few outputs takes seconds; evaluating them operation by
operation takes milliseconds. The function is traced, as JAX does, and its trace evaluated here;
primitives without a rule are bound as they are.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, cast

import equinox as eqx
import jax
import numpy as np

from polhode.compiler.cache.disk_cache import Serialiser
from polhode.compiler.cache.program_cache import Arguments, find_program, xla_jit
from polhode.compiler.loops.row_scan import codes, compile_scans
from polhode.compiler.numpy.interpreter import Interpreter, UnsupportedNumPyOperation, from_jaxpr
from polhode.compiler.placement import device_array, on_host
from polhode.jax_context import inside_transformation

P = ParamSpec("P")
T = TypeVar("T")


def numpy_jit(function: Callable[P, T]) -> Callable[P, T]:
    """Evaluates a function of this library with NumPy instead of compiling it.

    Its trace is cached like a compiled program, see `polhode.compiler.fingerprint`. Inside JAX's transformations the
    function is called directly, and it is compiled for arrays that are not on the host.
    """

    by_xla = xla_jit(function)

    def build(inputs: Any, rest: Any) -> tuple[Interpreter | None, Any]:
        def flat(*leaves: Any) -> T:
            args, options = eqx.combine(jax.tree.unflatten(jax.tree.structure(inputs), leaves), rest)
            return cast(Callable[..., T], function)(*args, **options)

        jaxpr, shape = jax.make_jaxpr(flat, return_shape=True)(*jax.tree.leaves(inputs))
        try:
            program = from_jaxpr(jaxpr)
        except UnsupportedNumPyOperation:
            return None, None
        compile_scans(program)
        return program, jax.tree.structure(shape)

    def dump(result: tuple[Interpreter | None, Any]) -> Any:
        program, structure = result
        return (
            None
            if program is None or not program.is_portable
            else (program, jax.tree.unflatten(structure, range(structure.num_leaves)))
        )

    def load(state: Any, inputs: Any) -> tuple[Interpreter | None, Any]:
        return state[0], jax.tree.structure(state[1])

    def watch(result: tuple[Interpreter | None, Any], write: Callable[[], None]) -> None:
        for code in [] if result[0] is None else codes(result[0]):
            code.when_improved = write

    serialiser: Serialiser[tuple[Interpreter | None, Any]] = Serialiser(dump, load, watch)

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        if inside_transformation():
            return function(*args, **options)
        arguments = Arguments(args, options)
        if not on_host(arguments.arrays):
            return by_xla(*args, **options)
        program, structure = arguments.program(build, serialiser)
        if program is None:
            return by_xla(*args, **options)
        with np.errstate(all="ignore"):
            outs = program(list(map(np.asarray, arguments.arrays)))
        return jax.tree.unflatten(structure, list(map(device_array, outs, program.weak)))

    return call


def shapes(function: Callable[..., Any], *args: Any) -> Any:
    """Shapes and types of the result of `function`, one of this library that captures nothing; cached like programs."""
    return find_program(_shapes, function, *args, serialiser=_SHAPES)[0]


def _shapes(inputs: Any, rest: Any) -> Any:
    def flat(leaves: Any) -> Any:
        function, *args = eqx.combine(leaves, rest)
        return function(*args)

    return jax.eval_shape(flat, inputs)


_SHAPES: Serialiser[Any] = Serialiser(dump=lambda shapes: shapes, load=lambda state, _: state)
