"""Functions of users as parts of elements, which can be stacked, compiled and differentiated."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeGuard

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.checks import short_repr
from polhode.compiler.fingerprint import AbstractHolder, Closure, frozen, is_immutable
from polhode.time_functions import breakpoints_of, kinks_of

if TYPE_CHECKING:
    from polhode.multibody.parts import AbstractComposite, AbstractPart


class Function(AbstractHolder):
    """A callable whose numbers are leaves and whose rest is hashable.

    Numbers in fields of an `equinox.Module` stay visible to JAX, so that runs can be differentiated and batched with
    respect to them and elements with equal functions are evaluated together. A plain function or a closure is
    identified by its code and what it captures (`polhode.compiler.fingerprint`).

    **Arguments:**

    - `function`: any callable.
    """

    numbers: tuple[Array, ...]
    rest: tuple[Any, ...] = eqx.field(static=True)
    structure: Any = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any]) -> None:
        leaves, self.structure = jax.tree.flatten(frozen(function))
        numeric = [eqx.is_array_like(leaf) for leaf in leaves]
        self.numbers = tuple(jnp.asarray(leaf) for leaf, yes in zip(leaves, numeric, strict=True) if yes)
        self.rest = tuple(_NUMBER if yes else leaf for leaf, yes in zip(leaves, numeric, strict=True))
        try:
            hash((self.rest, self.structure))
        except TypeError as error:
            raise ValueError(
                f"{function!r} can't be compiled: its static parts must be hashable ({error}). Keep arrays in ordinary "
                "fields of an `equinox.Module` instead of static ones."
            ) from error

    def __call__(self, *arguments: Any) -> Any:
        return self._whole(*arguments)

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Instants at which the function jumps or has kinks, if it says so by an attribute of that name."""
        return breakpoints_of(self._original)

    @property
    def kinks(self) -> tuple[float, ...]:
        """Those of them at which the function has kinks only, if it says so by an attribute of that name."""
        return kinks_of(self._original)

    @property
    def _original(self) -> Callable[..., Any]:
        whole = self._whole
        return whole.identity.function if isinstance(whole, Closure) else whole

    @property
    def constant(self) -> Array | None:
        """The value of a function that is a `Constant`; None of others."""
        whole = self._whole
        return whole.value if isinstance(whole, Constant) else None

    def refresh(self) -> Function:
        return self if self.is_immutable else Function(self._whole)

    @property
    def is_immutable(self) -> bool:
        return is_immutable(self._whole)

    @property
    def _whole(self) -> Callable[..., Any]:
        numbers = iter(self.numbers)
        leaves = [next(numbers) if leaf == _NUMBER else leaf for leaf in self.rest]
        return jax.tree.unflatten(self.structure, leaves)


_NUMBER = "a number"


class Constant(eqx.Module):
    """A function of time that doesn't change.

    **Arguments:**

    - `value`: what it returns.
    """

    value: Array

    def __call__(self, t: Array) -> Array:
        del t
        return self.value


def of_time(part: AbstractPart, name: str, value: Any, shape: tuple[int, ...], meaning: str) -> Function:
    """A function of time with values of the given shape. Raises ValueError for anything else."""
    if not callable(value):
        raise ValueError(
            f"{_argument(part, name)} must be a function of time ({meaning}), got {short_repr(value)}.{_remedy(value)}"
        )
    function = Function(value)
    # What a constant returns is known without tracing it, which takes milliseconds, for each joint of a model.
    result = function.constant if isinstance(value, Constant) else result_shapes(part, name, function, jnp.zeros(()))
    check_shape(part, name, result, shape, meaning)
    return function


def takes_arguments(function: Any, count: int) -> TypeGuard[Callable[..., Any]]:
    """Whether it is a function with that number of positional arguments without defaults."""
    if not callable(function):
        return False
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return False
    kinds = inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD
    return len([p for p in parameters if p.kind in kinds and p.default is p.empty]) == count


def _remedy(value: Any) -> str:
    """How a recorded signal becomes a function."""
    is_signal = isinstance(value, list | tuple) or getattr(value, "ndim", 0)
    return " For values in time: ph.PiecewiseLinear(times, values)." if is_signal else ""


def result_shapes(part: AbstractPart | AbstractComposite, name: str, function: Function, *arguments: Any) -> Any:
    """Shapes of the values of a user's function. Raises ValueError if JAX can't trace it."""
    try:
        return jax.eval_shape(function, *arguments)
    except jax.errors.JAXTypeError as error:
        raise ValueError(
            f"{_argument(part, name)} can't be traced by JAX: it asks for a number that is only known during the run, "
            "by NumPy, `math`, `float` or `if`. Write it with jax.numpy; jnp.where instead of `if`."
        ) from error
    except Exception as error:
        raise ValueError(f"{_argument(part, name)} can't be evaluated: {type(error).__name__}: {error}") from error


def check_shape(
    part: AbstractPart | AbstractComposite, name: str, value: Any, shape: tuple[int, ...], meaning: str
) -> None:
    """Raises ValueError unless a function returned one array, or number, of that shape."""
    if getattr(value, "shape", None) != shape:
        requirement = "a number" if shape == () else f"an array of shape {shape}"
        raise ValueError(f"{_argument(part, name)} must return {requirement} ({meaning}), it returns {shapes(value)}.")


def shapes(value: Any) -> str:
    """Shapes of returned values, in words."""
    if isinstance(value, list | tuple):
        return f"a {type(value).__name__} of {len(value)}: ({', '.join(shapes(item) for item in value)})"
    shape = getattr(value, "shape", None)
    return type(value).__name__ if shape is None else "a number" if shape == () else f"shape {shape}"


def _argument(part: AbstractPart | AbstractComposite, name: str) -> str:
    label = f" {short_repr(part.name)}" if part.name else ""
    return f"`{name}` of {type(part).__name__}{label}"
