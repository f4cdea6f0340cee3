"""Where arrays are, and where computing happens: on the processor, unless somebody asks for another device."""

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
    """While this is open, JAX computes by default where this library does.

    That is the device which `jax.default_device` names, else the one that arrays in `given` were put on, else the
    processor. An accelerator that JAX has found is no reason to use it: a step of a small system takes a thousand times
    as long there, and minutes to compile for. Inside JAX's transformations it is not ours to say.
    """
    if jax.default_backend() == "cpu" or _default_device() is not None or inside_transformation():
        return contextlib.nullcontext()
    elsewhere = next((x for x in _arrays(values) if not _is_near(x)), None)
    device = _processor() if elsewhere is None else min(elsewhere.sharding.device_set, key=lambda x: x.id)
    return contextlib.nullcontext() if device is None else jax.default_device(device)


def on_jax_device() -> AbstractContextManager[Any]:
    """While this is open, JAX computes on the device that `jax.default_device` names, or else on its own first one."""
    device = _default_device()
    return jax.default_device(jax.devices()[0] if device is None else device)


def with_default_device(function: Callable[P, T]) -> Callable[P, T]:
    """A function of the interface that computes where `default_device_for` says, from its first line on."""

    @functools.wraps(function)
    def call(*args: P.args, **options: P.kwargs) -> T:
        with default_device_for(args, options):
            return function(*args, **options)

    return call


def on_processor() -> bool:
    """Whether computing goes to the processor here, see `default_device_for`."""
    device = _default_device()
    if device is None:
        return jax.default_backend() == "cpu"
    return (device if isinstance(device, str) else device.platform) == "cpu"


def on_host(tree: Any) -> bool:
    """Whether computing with a tree goes to the processor, and its arrays are there in one piece or free to come."""
    with default_device_for(tree):
        if not on_processor():
            return False
    return all(map(_is_near, _arrays(tree)))


def device_array(x: np.ndarray, weak: bool = False) -> jax.Array:
    """An array of JAX on the default device with the values of `x`, which must not change from now on.

    `weak`: whether its type gives way to others, as that of Python's numbers.
    """
    if batched_device_put is None:
        return jax.device_put(x)
    # What `jax.device_put` comes to after 25 µs of asking what is to be done.
    device = _default_device()
    if not isinstance(device, jax.Device):
        device = jax.devices(device)[0]
    # Not bound to the device: computing with arrays of other devices moves it there, as what JAX makes by itself.
    return batched_device_put(_like(x.shape, x.dtype, weak), _on(device), [x], [device], committed=False)


def _default_device() -> Any:
    """The device that `jax.default_device` names, or its platform; None where it names none."""
    return getattr(jax.config, "jax_default_device")  # noqa: B009


def _arrays(tree: Any) -> Iterator[jax.Array]:
    """Arrays of JAX in a tree, and in the fields of dataclasses, such as problems, that are leaves of it."""
    for x in jax.tree.leaves(tree):
        if isinstance(x, jax.Array):
            yield x
        elif dataclasses.is_dataclass(x) and not isinstance(x, type):
            yield from _arrays(list(vars(x).values()))


def _is_near(x: jax.Array) -> bool:
    """Whether an array is on the processor in one piece, or free to be moved there."""
    devices = x.sharding.device_set
    return len(devices) == 1 and (not x.committed or next(iter(devices)).platform == "cpu")


@functools.cache
def _processor() -> Any:
    """The processor as a device of JAX; None where JAX was told to leave it alone."""
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
