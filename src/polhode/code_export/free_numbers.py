"""Numbers of a problem that stay variables of exported code: parameters, and inputs that change between steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np
from jax.extend import core

from polhode import checks
from polhode.checks import short_repr
from polhode.name_errors import unknown_name
from polhode.problem import Problem

Values = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Arrays of parameters and of inputs, in the order of their names."""


class FreeNumbers(NamedTuple):
    """Names of parameters and inputs, with the values that the problem has."""

    parameters: tuple[str, ...]
    inputs: tuple[str, ...]
    defaults: Values

    @classmethod
    def of(cls, problem: Problem, parameters: Any, inputs: Any) -> FreeNumbers:
        """Raises ValueError for names that the problem hasn't, that occur twice, or that are no numbers."""
        names = [tuple(_names(what, x)) for what, x in (("parameters", parameters), ("inputs", inputs))]
        every = [*names[0], *names[1]]
        for name in every:
            if every.count(name) > 1:
                raise ValueError(f"{name!r} is named twice among `parameters` and `inputs`; name each number once.")
        defaults = [tuple(_value(problem, name) for name in part) for part in names]
        return cls(names[0], names[1], (defaults[0], defaults[1]))

    @property
    def is_empty(self) -> bool:
        return not (self.parameters or self.inputs)

    def problem(self, problem: Problem, values: Values) -> Problem:
        """The problem with these values, which may be traced."""
        if self.is_empty:
            return problem
        return problem.replace(**dict(zip((*self.parameters, *self.inputs), (*values[0], *values[1]), strict=True)))


def _names(what: str, value: Any) -> Sequence[str]:
    names = [value] if isinstance(value, str) else checks.sequence(what, value, "names of numbers of the problem")
    for name in names:
        checks.word(what, name, "name of a number of the problem")
    return list(names)


def _value(problem: Problem, name: str) -> np.ndarray:
    if problem.build is None:
        raise ValueError(
            f"Problem `{problem.name}` was made by hand, so {name!r} can't stay free. Make it by "
            "`Model(…).problem(…)` with `polhode.Parameter`s."
        )
    if name not in problem.parameters:
        raise unknown_name("parameter", name, problem.parameters)
    value = problem.parameters[name]
    array = np.asarray(value)
    if array.dtype == bool or not np.issubdtype(array.dtype, np.number) or np.iscomplexobj(array) or not array.size:
        raise ValueError(
            f"{name!r} of problem `{problem.name}` is {short_repr(value)}, no number, so it can't stay free in "
            "exported code. Leave it out: what isn't named becomes a constant."
        )
    return array.astype(float)


def dependent_results(function: Callable[..., Sequence[Any]], *examples: Any) -> list[int]:
    """Which of the arrays that a function returns depend on its arguments."""
    jaxpr: Any = jax.make_jaxpr(function)(*examples).jaxpr
    dependent: set[Any] = set(jaxpr.invars)
    for eqn in jaxpr.eqns:
        if any(v in dependent for v in eqn.invars if not isinstance(v, core.Literal)):
            dependent.update(eqn.outvars)
    return [k for k, v in enumerate(jaxpr.outvars) if not isinstance(v, core.Literal) and v in dependent]
