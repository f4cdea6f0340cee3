"""Named parameters of models, and expressions of them."""

from __future__ import annotations

import abc
import operator
import sys
import types
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer

from polhode import checks
from polhode.checks import short_repr
from polhode.jax_context import refuse_as_array


class AbstractExpression(abc.ABC):
    """A number or an array computed from parameters, accepted wherever a model takes numbers.

    Sums, products, quotients, powers and NumPy's functions of it are expressions as well. As an array it has the
    default values of its parameters.
    """

    __array_priority__ = 1000

    @abc.abstractmethod
    def value(self, values: Mapping[str, Any]) -> Any:
        """The value for parameters by name; others have their defaults."""

    @abc.abstractmethod
    def substitute(self, values: Mapping[str, Any]) -> Any:
        """The expression with other values of its parameters; its value if JAX traces them."""

    @abc.abstractmethod
    def parameters(self) -> dict[str, Parameter]:
        """The parameters in it, by name."""

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return np.asarray(self.value({}), dtype)

    def __jax_array__(self) -> jax.Array:
        if not _called_by_library(sys._getframe(1)):
            raise _array_error(self)
        return jnp.asarray(np.asarray(self))

    def __float__(self) -> float:
        return float(np.asarray(self))

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Expression:
        if method != "__call__" or options:
            return NotImplemented
        # For traced values, JAX's function of the same name.
        both = getattr(jnp, ufunc.__name__)
        return Expression(lambda *x: (ufunc if checks.is_concrete(*x) else both)(*x), inputs)

    def __getitem__(self, index: Any) -> Expression:
        return Expression(lambda x: x[index], (self,))

    def __neg__(self) -> Expression:
        return Expression(operator.neg, (self,))

    def __add__(self, other: Any) -> Expression:
        return Expression(operator.add, (self, other))

    def __radd__(self, other: Any) -> Expression:
        return Expression(operator.add, (other, self))

    def __sub__(self, other: Any) -> Expression:
        return Expression(operator.sub, (self, other))

    def __rsub__(self, other: Any) -> Expression:
        return Expression(operator.sub, (other, self))

    def __mul__(self, other: Any) -> Expression:
        return Expression(operator.mul, (self, other))

    def __rmul__(self, other: Any) -> Expression:
        return Expression(operator.mul, (other, self))

    def __truediv__(self, other: Any) -> Expression:
        return Expression(operator.truediv, (self, other))

    def __rtruediv__(self, other: Any) -> Expression:
        return Expression(operator.truediv, (other, self))

    def __rpow__(self, other: Any) -> Expression:
        return Expression(operator.pow, (other, self))

    def __abs__(self) -> Expression:
        return Expression(operator.abs, (self,))

    def __pow__(self, other: Any) -> Expression:
        return Expression(operator.pow, (self, other))


class Expression(AbstractExpression):
    """A function of expressions and of numbers."""

    def __init__(self, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
        for each in arguments:
            if isinstance(each, jax.Array | Tracer):
                raise TypeError(
                    f"A Parameter can't be computed with arrays of JAX, got {short_repr(each)}: functions of time and "
                    "of states would not see it change. Give an `equinox.Module` with the Parameter in a field."
                )
        self._function, self._arguments = function, arguments

    def value(self, values: Mapping[str, Any]) -> Any:
        return self._function(
            *(each.value(values) if isinstance(each, AbstractExpression) else each for each in self._arguments)
        )

    def substitute(self, values: Mapping[str, Any]) -> Any:
        if not checks.is_concrete([values[name] for name in self.parameters() if name in values]):
            return self.value(values)
        return Expression(self._function, tuple(substitute(each, values) for each in self._arguments))

    def parameters(self) -> dict[str, Parameter]:
        by_name: dict[str, Parameter] = {}
        for each in self._arguments:
            by_name |= each.parameters() if isinstance(each, AbstractExpression) else {}
        return by_name

    def __repr__(self) -> str:
        return f"Expression({', '.join(self.parameters())})"


class Parameter(AbstractExpression):
    """A number of a model with a name, which `model.replace(name=…)` and `problem.replace(name=…)` change.

    ```python
    length = ph.Parameter("length", 1.0)
    arm = model.add_body(mass=ph.Parameter("mass", 2.0), inertia=(0.01, 0.2, 0.2), position=(length / 2, 0, 0))
    ```

    **Arguments:**

    - `name`: a word of Python. - `default`: a finite number or an array of such, its value until it is replaced.

    **Raises** ValueError for other names and values.
    """

    def __init__(self, name: str, default: Any) -> None:
        if not isinstance(name, str) or not name.isidentifier():
            raise ValueError(
                f"`name` of a Parameter must be a word that Python takes for a name, got {short_repr(name)}."
            )
        self.name, self.default = name, checks.numbers("default", default, f"value of the parameter {name}")
        if not np.isfinite(self.default).all():
            raise ValueError(f"`default` of the parameter {name} must be finite, got {short_repr(default)}.")

    def value(self, values: Mapping[str, Any]) -> Any:
        return values.get(self.name, self.default)

    def substitute(self, values: Mapping[str, Any]) -> Any:
        value = self.value(values)
        return Parameter(self.name, value) if checks.is_concrete(value) else value

    def parameters(self) -> dict[str, Parameter]:
        return {self.name: self}

    def __repr__(self) -> str:
        return f"Parameter({self.name!r}, {short_repr(self.default.tolist())})"


def _array_error(expression: AbstractExpression) -> ValueError:
    # JAX replaces TypeErrors by its own.
    return ValueError(
        f"A Parameter can't be computed with functions and arrays of JAX, got {expression!r}: they would not see it "
        "change. Take NumPy's functions, `np.cos(p)`, arithmetic such as `p**0.5`, and tuples for vectors, `(p, 0, 0)`;"
        " in functions of time and of states an `equinox.Module` with the Parameter in a field."
    )


def _refuse(expression: AbstractExpression) -> Any:
    raise _array_error(expression)


refuse_as_array(AbstractExpression, _refuse)

_BETWEEN = ("jax", "jaxlib", "equinox", "numpy")
"""Packages in the call stack of a conversion."""


def _called_by_library(frame: types.FrameType | None) -> bool:
    """Whether polhode itself requests the array, which it does only for values that stay constant."""
    while frame is not None:
        package = frame.f_globals.get("__name__", "").split(".")[0]
        if package not in _BETWEEN:
            return package == "polhode"
        frame = frame.f_back
    return False


def substitute(value: Any, values: Mapping[str, Any]) -> Any:
    """A number, or a tuple or list of numbers, with other values of its parameters."""
    if isinstance(value, AbstractExpression):
        return value.substitute(values)
    return type(value)(substitute(each, values) for each in value) if type(value) in (tuple, list) else value
