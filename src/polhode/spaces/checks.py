"""Validation of points from users."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
from jax.core import Tracer
from jaxtyping import Array

from polhode import checks
from polhode.compiler.numpy_jit import numpy_jit
from polhode.compiler.placement import device_array
from polhode.jax_context import outside_trace
from polhode.spaces.base import AbstractSpace, Point

TOLERANCE = 1e-6
"""How far a given point may lie off its space, in the max-norm of `space.residual`."""


def check_point(space: AbstractSpace, q: Any, name: str = "q") -> Point:
    """`q` as float64 arrays, after checking that it is a point of `space`.

    **Arguments:**

    - `space`: where `q` should lie.
    - `q`: numbers or arrays in the structure of a point. Values traced by JAX are checked for shape only.
    - `name`: its name in messages.

    Raises `ValueError` for a wrong structure or shape, numbers that are not finite, or a point farther than 1e-6 from
    the space.
    """
    # Only shapes are needed.
    template = jax.eval_shape(space.origin)
    leaves = _leaves(template, q, name)
    labels = [name + jax.tree_util.keystr(path) for path, _ in jax.tree_util.tree_leaves_with_path(template)]
    arrays = []
    for label, leaf, model in zip(labels, leaves, jax.tree.leaves(template), strict=True):
        if not isinstance(leaf, Tracer):
            leaf = _as_numbers(label, leaf)
        if leaf.shape != model.shape:
            raise ValueError(
                f"`{label}` must have shape {model.shape}, got {leaf.shape}. Methods act on one point; batch with "
                "`jax.vmap`."
            )
        arrays.append(leaf.astype(float) if isinstance(leaf, Tracer) else device_array(np.array(leaf, float)))
    point = jax.tree.unflatten(jax.tree.structure(template), arrays)
    if not any(isinstance(x, Tracer) for x in jax.tree.leaves((space, arrays))):
        with outside_trace():
            distance = float(_distance(space, point))
        if distance > TOLERANCE:
            raise ValueError(
                f"`{name}` lies {distance:.3g} off {type(space).__name__}, more than {TOLERANCE:g}: {_short(point)}. "
                "Normalise it with `space.project(q)`."
            )
    return point


@numpy_jit
def _distance(space: AbstractSpace, point: Point) -> Array:
    """Compiled once for a space: done step by step it takes longer than all else before a short run."""
    return space.residual(point)


def _leaves(template: Point, q: Any, name: str) -> list[Any]:
    """The parts of `q` in the order of `template`; an array's place may be taken by nested lists of numbers."""
    if not isinstance(template, tuple):
        return [q]
    if not isinstance(q, tuple | list) or len(q) != len(template):
        got = f"{type(q).__name__} of {len(q)}" if isinstance(q, tuple | list) else type(q).__name__
        raise ValueError(f"`{name}` must be a tuple of {len(template)} parts, got {got}: {_short(q)}.")
    return [leaf for i, part in enumerate(template) for leaf in _leaves(part, q[i], f"{name}[{i}]")]


def _as_numbers(label: str, leaf: Any) -> np.ndarray:
    array = checks.numbers(label, leaf, "an array of real numbers")
    if not np.all(np.isfinite(array)):
        raise ValueError(f"`{label}` must be finite, got {_short(leaf)}. Remove the NaN or infinity.")
    return array


def _short(value: Any) -> str:
    return " ".join(checks.short_repr(value).split())
