"""Where arrays are."""

from __future__ import annotations

import functools
from typing import Any

import jax
import numpy as np

try:
    from jax._src.interpreters.pxla import batched_device_put as _put
except ImportError:
    _put = None


def on_host(tree: Any) -> bool:
    """Whether JAX computes on the CPU, and all arrays of a tree are there, each in one piece."""
    if jax.default_backend() != "cpu":
        return False
    return all(len(x.sharding.device_set) == 1 for x in jax.tree.leaves(tree) if isinstance(x, jax.Array))


def place(x: np.ndarray, weak: bool = False) -> jax.Array:
    """An array of JAX on the first device with the values of `x`, which must not change from now on.

    `weak`: whether its type gives way to others, as that of Python's numbers.
    """
    if _put is None:
        return jax.device_put(x)
    # What `jax.device_put` comes to after 25 µs of asking what is to be done.
    device = jax.devices()[0]
    # Not bound to the device: computing with arrays of other devices moves it there, as what JAX makes by itself.
    return _put(_like(x.shape, x.dtype, weak), _on(device), [x], [device], committed=False)


@functools.lru_cache(maxsize=1024)
def _like(shape: tuple[int, ...], dtype: np.dtype, weak: bool) -> Any:
    like: Any = jax.typeof(np.empty(shape, dtype))
    return like.update(weak_type=True) if weak else like


@functools.lru_cache(maxsize=16)
def _on(device: Any) -> Any:
    return jax.sharding.SingleDeviceSharding(device)
