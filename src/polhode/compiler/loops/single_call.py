"""Code of one call of a function, whose arguments and results are trees in memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from polhode.compiler.arrays.array_ir import Function, pointers_of
from polhode.compiler.arrays.selection import compile_either
from polhode.compiler.loops.loop_code import AbstractLoopCode, ArrayLoopCode, Concatenation, ScalarLoopCode
from polhode.compiler.loops.packed_layout import Layout
from polhode.compiler.scalars.traced_function import TracedFunction
from polhode.compiler.trace import on_scalars, trace

T = TypeVar("T")


class SingleCall(NamedTuple):
    """A traced function of trees.

    - `program`: the function. - `examples`: its arguments, by the names of the pointers to them.
    - `result`: the layout of its result, which the last pointer, `results`, leads to.
    """

    program: TracedFunction
    examples: dict[str, Any]
    result: Layout

    @classmethod
    def of(cls, function: Callable[..., Any], **examples: Any) -> SingleCall:
        """Traces a function. Raises `UnsupportedNativeOperation` where there is no machine code."""
        program = trace(function, *examples.values())
        return cls(program, examples, Layout(program.out_shape))

    def build(self, make: Callable[[AbstractLoopCode, Function], T]) -> T:
        """The result of `make` for the function in code, on arrays or on scalars.

        Raises `UnsupportedNativeOperation` where there is neither.
        """
        jaxpr = self.program.closed_jaxpr
        return compile_either(
            jaxpr.jaxpr,
            lambda: make(*self._function(ArrayLoopCode(), jaxpr)),
            lambda: make(*self._function(ScalarLoopCode(), on_scalars(self.program, *self.examples.values()))),
        )

    def _function(self, code: AbstractLoopCode, program: Any) -> tuple[AbstractLoopCode, Function]:
        pointers = pointers_of((*self.examples, "results"))
        parts = [code.read(code.places(pointers[name], Layout(x))) for name, x in self.examples.items()]
        results = code.call(program, Concatenation(*parts))
        code.write(results, code.places(pointers["results"], self.result))
        return code, Function(pointers, code.k.block, np.int64(0))
