"""A spring, a dashpot and a slider in series with the spring: what tangential forces and resistances share."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
from jaxtyping import Array

from polhode.spaces.component_arrays import Vectors, add, scale


class Slider(NamedTuple):
    """A spring of stiffness k and a dashpot of constant c, whose force is at most `limit`.

    - `stiffness`: k at the end of the step. - `damping`: c. - `limit`: largest force.
    """

    stiffness: Array
    damping: Any
    limit: Array


class Slip(NamedTuple):
    """After a step: force, displacement and energy of the spring."""

    force: Vectors
    spring: Vectors
    energy: Array


def slide(slider: Slider, spring: Vectors, keep: Any, way: Vectors, velocity: Vectors) -> Slip:
    """The slider after a step with the displacement `way`, and `velocity` at its end.

    `spring`: its displacement at the start. `keep`: factor by which a change of stiffness shortens it; what is added
    in the step is shortened by half of that. Vectors of one component or of three.
    """
    k, c = slider.stiffness, slider.damping
    stretched = add(scale(keep, spring), scale(0.5 * (1 + keep), way))
    trial = tuple(k * s + c * v for s, v in zip(stretched, velocity, strict=True))
    size = jnp.sqrt(_safe(_square(trial)))
    share = jnp.where(size > slider.limit, slider.limit / size, 1.0)
    holds = k > 0
    lag = jnp.where(holds, c / jnp.where(holds, k, 1.0), 0.0)
    after = tuple(
        jnp.where(holds, share * s + (share - 1) * lag * v, 0.0) for s, v in zip(stretched, velocity, strict=True)
    )
    return Slip(scale(-share, trial), after, 0.5 * k * _square(after))


def _square(a: Vectors) -> Any:
    return sum(x * x for x in a)


def _safe(square: Array) -> Array:
    """Positive, so that the root has a derivative."""
    return jnp.where(square > 0, square, 1e-300)
