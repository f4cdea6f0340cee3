"""On-disk memoisation of functions of models."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar

from polhode.compiler.cache.disk_cache import Serialiser, load_or_build
from polhode.compiler.fingerprint.persistent_keys import persistent_key
from polhode.jax_context import inside_transformation

P = ParamSpec("P")
T = TypeVar("T")

_WORTH_STORING = 0.1
"""Seconds; faster calls are not stored, so that series of models don't fill the folder with small files."""


def memoised_on_disk(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator of pure functions of this library that return plain values.

    Values of an earlier process are reused for arguments equal to the last bit. The function is evaluated every time
    for arguments with user code, and inside JAX's transformations.
    """

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        if inside_transformation():
            return function(*args, **options)

        def build() -> tuple[T, float]:
            began = time.perf_counter()
            return function(*args, **options), time.perf_counter() - began

        return load_or_build(persistent_key(function, args, options), build, _SERIALISER, None)[0]

    return call


_SERIALISER: Serialiser[tuple[Any, float]] = Serialiser(
    dump=lambda result: (result[0],) if result[1] > _WORTH_STORING else None,
    load=lambda state, _: (state[0], 0.0),
)
