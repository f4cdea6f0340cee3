"""Devices of arrays and computations: the CPU, unless another device is requested."""

from __future__ import annotations

import contextlib
import dataclasses
import functools
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from polhode.jax_context import batched_device_put, inside_transformation

P = ParamSpec("P")
T = TypeVar("T")


def default_device_for(*values: Any) -> AbstractContextManager[Any]:
    """Context in which JAX's default device is the one of this library.

    That is the device of `jax.default_device`, else the one to which arrays in `values` are committed, else the CPU. An
    accelerator is not used only because JAX has one: there a step of a small system takes a thousand times as long, and
    minutes to compile. Inside JAX's transformations nothing is changed.
    """
    if jax.default_backend() == "cpu" or _default_device() is not None or inside_transformation():
        return contextlib.nullcontext()
    elsewhere = next((x for x in _arrays(values) if not _is_near(x)), None)
    device = _processor() if elsewhere is None else min(elsewhere.sharding.device_set, key=lambda x: x.id)
    return contextlib.nullcontext() if device is None else jax.default_device(device)


def on_jax_device() -> AbstractContextManager[Any]:
    """Context in which JAX computes on the device of `jax.default_device`, or else on its own first one."""
    device = _default_device()
    return jax.default_device(jax.devices()[0] if device is None else device)


def with_default_device(function: Callable[P, T]) -> Callable[P, T]:
    """Decorator of public functions: computes on the device of `default_device_for` its arguments."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with default_device_for(args, options):
            return function(*args, **options)

    return call


def on_processor() -> bool:
    """Whether the default device is the CPU, see `default_device_for`."""
    device = _default_device()
    if device is None:
        return jax.default_backend() == "cpu"
    return (device if isinstance(device, str) else device.platform) == "cpu"


def on_host(tree: Any) -> bool:
    """Whether the default device for a tree is the CPU, and its arrays are there, unsharded, or uncommitted."""
    with default_device_for(tree):
        if not on_processor():
            return False
    return all(map(_is_near, _arrays(tree)))


def device_array(x: np.ndarray, weak: bool = False) -> jax.Array:
    """An array of JAX on the default device with the values of `x`, which must not change afterwards.

    `weak`: whether its type is weak, as that of Python's numbers.
    """
    if batched_device_put is None:
        return jax.device_put(x)
    # The call that `jax.device_put` makes after 25 µs of dispatch.
    device = _default_device()
    if not isinstance(device, jax.Device):
        device = jax.devices(device)[0]
    # Uncommitted, like JAX's own results: computing with arrays of other devices moves it there.
    return batched_device_put(_like(x.shape, x.dtype, weak), _on(device), [x], [device], committed=False)


def _default_device() -> Any:
    """The device of `jax.default_device`, or its platform; None where it is not set."""
    return getattr(jax.config, "jax_default_device")  # noqa: B009


def _arrays(tree: Any) -> Iterator[jax.Array]:
    """Arrays of JAX in a tree, and in the fields of dataclasses, such as problems, that are leaves of it."""
    for x in jax.tree.leaves(tree):
        if isinstance(x, jax.Array):
            yield x
        elif dataclasses.is_dataclass(x) and not isinstance(x, type):
            yield from _arrays(list(vars(x).values()))


def _is_near(x: jax.Array) -> bool:
    """Whether an array is unsharded, and on the CPU or uncommitted."""
    devices = x.sharding.device_set
    return len(devices) == 1 and (not x.committed or next(iter(devices)).platform == "cpu")


@functools.cache
def _processor() -> Any:
    """The CPU as a device of JAX; None where JAX is configured without it."""
    try:
        return jax.local_devices(backend="cpu")[0]
    except RuntimeError:
        return None


@functools.lru_cache(maxsize=1024)
def _like(shape: tuple[int, ...], dtype: np.dtype, weak: bool) -> Any:
    like: Any = jax.typeof(np.empty(shape, dtype))
    return like.update(weak_type=True) if weak else like


@functools.lru_cache(maxsize=16)
def _on(device: Any) -> Any:
    return jax.sharding.SingleDeviceSharding(device)
