"""Scalar back end for XLA: graphs of scalars as JAX programs, cut into pieces that XLA compiles well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, final

import jax
import jax.numpy as jnp

from polhode.compiler.scalars.backend import AbstractScalarBackend, UnsupportedScalarOperation, Values
from polhode.compiler.scalars.flat_lists import stack

_SMALL = 10_000
"""Copies of operations that XLA may make before cuts pay; LLVM removes that many by itself."""

_CUT_ABOVE = 32
"""Operations on which a value that is used more than once depends, above which it is computed only once."""


@final
class XlaBackend(AbstractScalarBackend):
    """Binds the operations in the current trace of JAX.

    XLA copies every operation into the kernel of every value that needs it, so a graph with many outputs grows by that
    factor. It never copies divisions. So in large graphs a value that is used more than once and depends on many
    operations is divided by `one`, a 1 that XLA can't fold: exact, and computed once.

    **Arguments:**

    - `one`: that scalar; None leaves large graphs uncut.
    """

    def __init__(self, one: Any) -> None:
        self._one = one

    def emit(self, nodes: Sequence[Any], results: Sequence[Any]) -> None:
        cuts = self._cuts(nodes, results) if self._one is not None else frozenset()
        for node in nodes:
            operands = (getattr(o, "value", o) for o in node.operands)
            node.value = node.kind.primitive.bind(*operands, **node.kind.params)
            if node in cuts:
                node.value = jax.lax.div_p.bind(node.value, self._one)

    def scalar(self, value: Any, dtype: Any) -> Any:
        return jnp.asarray(value, dtype=dtype)

    def loop(
        self,
        cond: Callable[[AbstractScalarBackend, Values], Any],
        body: Callable[[AbstractScalarBackend, Values], Values],
        start: Values,
    ) -> Values:
        return jax.lax.while_loop(lambda x: cond(self, x), lambda x: body(self, x), start)

    def branch(self, which: Any, branches: Sequence[Callable[[AbstractScalarBackend], Values]]) -> Values:
        return jax.lax.switch(jnp.asarray(which, jnp.int32), [lambda b=b: b(self) for b in branches])

    def rows(self, body: Any, start: Values, rows: Sequence[Values], reverse: bool) -> tuple[Values, list[Values]]:
        raise UnsupportedScalarOperation("rows")

    def solution(self, x: Values, place: Values, equation: Any, precondition: Any) -> Values:
        raise UnsupportedScalarOperation("solution")

    def custom_jvp(self, outs: Values, of: Values, tangents: Any) -> Values:
        raise UnsupportedScalarOperation("ruled")

    def foreign(self, eqn: Any, inputs: Sequence[Values]) -> Sequence[Any]:
        operands = [stack(x, v.aval) for x, v in zip(inputs, eqn.invars, strict=True)]
        outs = eqn.primitive.bind(*operands, **eqn.params)
        return outs if eqn.primitive.multiple_results else [outs]

    def _cuts(self, order: Sequence[Any], outputs: Sequence[Any]) -> frozenset[Any]:
        """Nodes that will be computed only once."""
        uses = dict.fromkeys(order, 0)
        for node in order:
            for operand in set(node.operands):
                if operand in uses:
                    uses[operand] += 1
        for cut_above in (None, _CUT_ABOVE):
            cuts, ancestors, total = set(), {}, 0
            for k, node in enumerate(order):
                mask = 1 << k
                for operand in node.operands:
                    mask |= ancestors.get(operand, 0)
                size = mask.bit_count()
                if cut_above and uses[node] > 1 and size > cut_above and node.dtype == self._one.dtype:
                    cuts.add(node)
                    total += size
                    mask = 0
                ancestors[node] = mask
            total += sum(
                ancestors[e].bit_count() for e in {e for e in outputs if hasattr(e, "operands")} if e in ancestors
            )
            if total <= _SMALL:
                break
        return frozenset(cuts)
