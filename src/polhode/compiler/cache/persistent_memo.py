"""Findings kept between processes: what was found out about a model is not found out again."""

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
"""Seconds; what takes less is found out each time, so that series of models don't fill the folder with small files."""


def memoised_on_disk(function: Callable[P, T]) -> Callable[P, T]:
    """A function of this library that returns plain values, and whose values are all that its arguments tell.

    Values found in an earlier process, for arguments equal to the last bit, are those found now. Arguments with
    anything of a user are looked at every time, and so are all inside JAX's transformations.
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
    dump=lambda made: (made[0],) if made[1] > _WORTH_STORING else None,
    load=lambda state, _: (state[0], 0.0),
)
