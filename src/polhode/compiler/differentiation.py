"""Machine code of derivatives: on scalars, or on arrays for large functions."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
from jax.extend import core

from polhode.compiler.arrays.selection import compile_either
from polhode.compiler.autodiff.adjoint import adjoint
from polhode.compiler.autodiff.tangent import tangent
from polhode.compiler.llvm.jit import CompiledFunction
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.loops.loop_code import ArrayLoopCode, LoopCompiler, ScalarLoopCode
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.number_pattern import ARGUMENTS, NumberPattern
from polhode.compiler.primitives.lowering import DIFFERENTIABLE, DIFFERENTIABLE_WITH_REMAT, MACHINE_CODE, Backend, lower
from polhode.compiler.scalars.backend import UnsupportedScalarOperation
from polhode.compiler.scalars.program import Program
from polhode.compiler.trace import on_scalars, small, trace

Derive = Callable[[Program, Sequence[int]], Program]


class DifferentiableFunction:
    """A function of trees that returns floats, to be differentiated with respect to some arguments, all floats.

    - `wrt`, `out_shape`: shapes of these arguments, and of the function's result.

    **Arguments:**

    - `function`: the function.
    - `of`: selects these arguments from a tree like the examples.
    - `examples`: arguments; only structure, shapes and dtypes matter.
    - `pattern`: numbers of the first argument that are constants, none of which `of` selects.

    Raises `UnsupportedNativeOperation` if there is no machine code for it.
    """

    def __init__(
        self,
        function: Callable[..., Any],
        of: Callable[..., Any],
        *examples: Any,
        pattern: NumberPattern = ARGUMENTS,
    ) -> None:
        self._function, self._examples, self._pattern = function, examples, pattern
        self._program = trace(function, *examples, target=DIFFERENTIABLE)
        layout = Layout(examples)
        wrt = of(*jax.tree.unflatten(layout.structure, range(len(layout.leaves))))
        self._like, self._places = layout.leaves, jax.tree.leaves(wrt)
        ends = list(itertools.accumulate(layout.sizes))
        self._numbers = [n for k in self._places for n in range(ends[k] - layout.sizes[k], ends[k])]
        self.wrt = jax.tree.map(lambda k: layout.leaves[k], wrt)
        self.out_shape = self._program.out_shape

    def vjp(self, compile: LoopCompiler) -> CompiledFunction:
        """The machine code of a loop around the vector–Jacobian product.

        Its program takes the arguments, then the cotangent of the result. It returns the cotangents of the arguments in
        `wrt`. Raises `UnsupportedNativeOperation` if there is no machine code for it.
        """
        return self._either(compile, adjoint, lambda: self._of_arrays(_vjp, self.out_shape, DIFFERENTIABLE_WITH_REMAT))

    def jvp(self, compile: LoopCompiler) -> CompiledFunction:
        """A loop around the Jacobian–vector product: its program takes the arguments, then the tangents of those in
        `wrt`.

        It returns the tangent of the function's result.
        """
        return self._either(compile, tangent, lambda: self._of_arrays(_jvp, self.wrt, DIFFERENTIABLE))

    def _either(
        self, compile: LoopCompiler, derive: Derive, of_arrays: Callable[[], core.ClosedJaxpr]
    ) -> CompiledFunction:
        return compile_either(
            self._program.closed_jaxpr.jaxpr,
            lambda: compile(ArrayLoopCode(), of_arrays()),
            lambda: compile(ScalarLoopCode(), self._of_scalars(derive)),
            wrt=self._places,
        )

    def _of_scalars(self, derive: Derive) -> Program:
        region = on_scalars(self._program, *self._examples, wrt=self._places, pattern=self._pattern)
        slots = itertools.accumulate((v.slots for v in region.inputs), initial=0)
        inputs = {slot: k for k, slot in enumerate(slots)}
        try:
            return small(derive(region, [inputs[n] for n in self._numbers]))
        except UnsupportedScalarOperation as needed:
            raise UnsupportedNativeOperation(str(needed)) from None

    def _of_arrays(self, derive: Callable[..., list[Any]], tangents: Any, target: Backend) -> core.ClosedJaxpr:
        """JAX's derivative of the trace, in which loops over rows stay loops."""
        program = trace(self._function, *self._examples, target=target)
        function = core.jaxpr_as_fun(program.closed_jaxpr)

        def derivative(arguments: list[Any], tangents: list[Any]) -> list[Any]:
            def at(values: list[Any]) -> list[Any]:
                by_place = dict(zip(self._places, values, strict=True))
                return function(*(by_place.get(k, x) for k, x in enumerate(arguments)))

            return derive(at, [arguments[k] for k in self._places], tangents)

        try:
            return lower(jax.make_jaxpr(derivative)(self._like, jax.tree.leaves(tangents)), MACHINE_CODE)
        except (NotImplementedError, TypeError, ValueError) as failed:
            # JAX has no rule, as for loops whose number of rounds depends on the data.
            raise UnsupportedNativeOperation(str(failed)) from None


def _vjp(function: Callable[[list[Any]], list[Any]], at: list[Any], cotangents: list[Any]) -> list[Any]:
    return jax.vjp(function, at)[1](cotangents)[0]


def _jvp(function: Callable[[list[Any]], list[Any]], at: list[Any], tangents: list[Any]) -> list[Any]:
    return jax.jvp(function, (at,), (tangents,))[1]
