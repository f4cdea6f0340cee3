"""The list of named problems."""

from __future__ import annotations

import functools
import importlib
import inspect
import pkgutil
from collections.abc import Callable
from typing import Any, ParamSpec

from polhode import checks
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.placement import with_default_device
from polhode.jax_context import check_environment
from polhode.problem import Problem, timed_build
from polhode.problems import named

_BUILDERS: dict[str, Callable[..., Problem]] = {}


P = ParamSpec("P")


def register(name: str) -> Callable[[Callable[P, Problem]], Callable[P, Problem]]:
    """Decorator that lists a builder, whose keyword arguments are the problem's parameters."""

    def add(builder: Callable[P, Problem]) -> Callable[P, Problem]:
        build = eager_numpy()(builder)
        if builder.__module__.startswith(f"{named.__name__}."):
            # One of the library is loaded when it is first used, which may be after a user's of the same name.
            _BUILDERS.setdefault(name, build)
        else:
            _BUILDERS[name] = build
        return build

    return add


def names() -> list[str]:
    """All problem names."""
    return sorted({*_BUILDERS, *_modules()})


@functools.cache
def _modules() -> frozenset[str]:
    """Names of the library's own problems; each is loaded when it is first used."""
    return frozenset(module.name.replace("_", "-") for module in pkgutil.iter_modules(named.__path__))


@with_default_device
def get(name: str, **parameters: Any) -> Problem:
    """The problem called `name`, with some parameters changed from their defaults.

    Raises ValueError for unknown names and parameters, naming the nearest known ones, and RuntimeError where JAX can't
    compute as it should.
    """
    check_environment()
    builder = builder_of(name)
    parameter_names = list(inspect.signature(builder).parameters)
    for key in parameters:
        if key not in parameter_names:
            near = checks.nearest(key, parameter_names)
            raise ValueError(f"Problem `{name}` has no parameter `{key}`.{near} It has {', '.join(parameter_names)}.")
    try:
        return timed_build(builder, **parameters)
    except OverflowError:
        raise ValueError(
            f"Problem `{name}` has no finite numbers with these parameters: {checks.short_repr(parameters)}."
        ) from None


def builder_of(name: str) -> Callable[..., Problem]:
    """The function that makes the problem called `name`; its docstring and arguments are available without building it.

    Raises ValueError for unknown names.
    """
    if checks.word("name", name, "of a problem") in _BUILDERS:
        return _BUILDERS[name]
    if name in _modules():
        place = name.replace("-", "_")
        return getattr(importlib.import_module(f"{named.__name__}.{place}"), place)
    near = checks.nearest(name, names())
    raise ValueError(f"There is no problem `{name}`.{near} Known: {', '.join(names())}.")
