"""Lowers a jaxpr for one back end: row loops, LAPACK alternatives, implicit solutions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

from polhode.compiler.jaxprs import is_high_level, lower_equation, scan
from polhode.compiler.primitives.backend_query import ALTERNATIVES, DIFFERENTIATED, NO_LAPACK
from polhode.compiler.primitives.implicit_solution import SOLUTION, split_operands
from polhode.compiler.primitives.row_loop import ROWS, on_arrays, with_remat


class Backend(NamedTuple):
    """A back end, by its lowering of the primitives of this package.

    - `rows`: the function that a loop over rows becomes; None for a scan.
    - `no_lapack`: whether LAPACK can't be called.
    - `differentiated`: whether the trace is differentiated.
    """

    rows: Callable[[Any], Callable[..., list[Any]]] | None = None
    no_lapack: bool = False
    differentiated: bool = False


MACHINE_CODE = Backend(no_lapack=True)
DIFFERENTIABLE = Backend(no_lapack=True, differentiated=True)
DIFFERENTIABLE_WITH_REMAT = Backend(with_remat, no_lapack=True, differentiated=True)
"""For JAX's reverse mode, which stores all values of a loop over rows unless they are rematerialised."""

ARRAYS = Backend(on_arrays)
"""NumPy, and XLA by default."""


def lower(jaxpr: core.ClosedJaxpr, backend: Backend) -> core.ClosedJaxpr:
    """The jaxpr for this back end; the same object if there is nothing to lower."""
    return _Lowerer(backend).lower(jaxpr)


class _Lowerer:
    """One pass over a jaxpr and all inner ones; one that occurs several times is lowered once."""

    def __init__(self, backend: Backend) -> None:
        self.backend = backend
        self._done: dict[int, tuple[core.Jaxpr, core.Jaxpr]] = {}

    def lower(self, program: core.ClosedJaxpr) -> core.ClosedJaxpr:
        jaxpr = self._jaxpr(program.jaxpr)
        return program if jaxpr is program.jaxpr else core.ClosedJaxpr(jaxpr, program.consts)

    def _jaxpr(self, jaxpr: core.Jaxpr) -> core.Jaxpr:
        if id(jaxpr) not in self._done:
            self._done[id(jaxpr)] = jaxpr, self._rebuild(jaxpr)
        return self._done[id(jaxpr)][1]

    def _rebuild(self, jaxpr: core.Jaxpr) -> core.Jaxpr:
        substitutes: dict[Any, Any] = {}
        eqns: list[Any] = []

        def read(atoms: Sequence[Any]) -> list[Any]:
            return [x if isinstance(x, core.Literal) else substitutes.get(x, x) for x in atoms]

        for eqn in jaxpr.eqns:
            inputs = read(eqn.invars) if substitutes else eqn.invars
            results = self._replacement(eqn, inputs)
            if results is not None:
                substitutes.update(zip(eqn.outvars, results, strict=True))
                continue
            equation = eqn if inputs is eqn.invars else eqn.replace(invars=inputs)
            eqns.append(self._equation(equation))
        if not substitutes and all(new is old for new, old in zip(eqns, jaxpr.eqns, strict=True)):
            return jaxpr
        return jaxpr.replace(eqns=eqns, outvars=read(jaxpr.outvars))

    def _replacement(self, eqn: Any, inputs: Sequence[Any]) -> Sequence[Any] | None:
        """The results of an equation that needs no evaluation; None for others."""
        if eqn.primitive in (NO_LAPACK, DIFFERENTIATED):
            answer = self.backend.differentiated if eqn.primitive is DIFFERENTIATED else self.backend.no_lapack
            return [core.Literal(np.bool_(answer), eqn.outvars[0].aval)]
        if eqn.primitive.name == SOLUTION and not self.backend.differentiated:
            *_, x, place = split_operands(eqn.params, inputs)
            return [*x, *place]
        if eqn.primitive.name == "convert_element_type" and _is_constant(inputs[0], np.bool_):
            return [core.Literal(np.asarray(inputs[0].val, eqn.params["new_dtype"])[()], eqn.outvars[0].aval)]
        return None

    def _equation(self, eqn: Any) -> Any:
        name, params = eqn.primitive.name, eqn.params
        if is_high_level(eqn):
            return self._call(eqn, lower_equation(eqn), eqn.invars)
        if eqn.primitive is ROWS:
            return self._rows(eqn)
        if eqn.primitive is ALTERNATIVES:
            fallback, by_lapack = params["ways"]
            return self._trace(eqn, fallback if self.backend.no_lapack else by_lapack)
        if name == "cond" and _is_constant(eqn.invars[0], np.integer):
            return self._call(eqn, params["branches"][int(eqn.invars[0].val)], eqn.invars[1:])
        if name == "custom_jvp_call" and _has_open_operations(params["call_jaxpr"].jaxpr):
            return self._call(eqn, params["call_jaxpr"], eqn.invars)
        new = {key: self._parameter(value) for key, value in params.items() if _holds_programs(value)}
        return eqn if all(new[key] is params[key] for key in new) else eqn.replace(params={**params, **new})

    def _rows(self, eqn: Any) -> Any:
        if self.backend.rows is None:
            return scan(eqn.replace(params={**eqn.params, "jaxpr": self.lower(eqn.params["jaxpr"])}))
        return self._trace(eqn, self.backend.rows(eqn.params))

    def _trace(self, eqn: Any, function: Callable[..., list[Any]]) -> Any:
        """A call of a function, traced here."""
        types = [jax.ShapeDtypeStruct(x.aval.shape, x.aval.dtype) for x in eqn.invars]
        return self._call(eqn, jax.make_jaxpr(function)(*types), eqn.invars)

    def _call(self, eqn: Any, program: core.ClosedJaxpr, inputs: Sequence[Any]) -> Any:
        """A call of a program in place of an equation."""
        params = {"call_jaxpr": self.lower(program)}
        return eqn.replace(primitive=core.primitives.closed_call_p, params=params, invars=list(inputs))

    def _parameter(self, value: Any) -> Any:
        if isinstance(value, core.ClosedJaxpr):
            return self.lower(value)
        if isinstance(value, core.Jaxpr):
            return self._jaxpr(value)
        if not _holds_programs(value):
            return value
        items = [self._parameter(x) for x in value]
        if all(new is old for new, old in zip(items, value, strict=True)):
            return value
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)


def _holds_programs(parameter: Any) -> bool:
    """Whether a parameter is a program, or a tuple with one inside."""
    if isinstance(parameter, tuple):
        return any(map(_holds_programs, parameter))
    return isinstance(parameter, core.ClosedJaxpr | core.Jaxpr)


def _is_constant(atom: Any, kind: type) -> bool:
    return isinstance(atom, core.Literal) and isinstance(atom.val, kind)


def _has_open_operations(jaxpr: core.Jaxpr) -> bool:
    """Whether a program with a custom derivative has primitives that back ends differentiate by their own rules."""
    own = (ROWS, ALTERNATIVES, NO_LAPACK, DIFFERENTIATED)
    return any(eqn.primitive in own or eqn.primitive.name == SOLUTION for eqn in jaxpr.eqns)
