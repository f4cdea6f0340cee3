"""Step size control on manifolds."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode import checks
from polhode.spaces.base import AbstractSpace, Point


class Tolerances(NamedTuple):
    """Relative and absolute tolerance of one step's local error."""

    rtol: Any
    atol: Any


_MEANING = "of step size control"


class StepControl(eqx.Module):
    r"""How error-controlled steps are chosen.

    The local error is an algebra element. Each of its blocks (see `AbstractSpace.blocks`) is measured by its
    Euclidean norm and divided by `atol + rtol·scale`, where the scale is 1 rad for rotations and the magnitude of the
    block for linear parts. Nothing depends on the inertial frame, so neither does the sequence of steps. A step is
    accepted if the norm ε of these ratios is at most 1; the next step is
    $h\,\mathrm{clip}(\mathtt{safety}\; ε_n^{-α}\, ε_{n-1}^{β},\ \mathtt{min\_factor},\ \mathtt{max\_factor})$.

    **Arguments:**

    - `safety`: θ of the literature, 0.8 to 0.9.
    - `min_factor`, `max_factor`: limits of the change of step.
    - `exponent`: α; by default 1/(1 + min(p, p̂)).
    - `pi`: β as a fraction of α. 0 is the elementary controller; 0.4 a smooth PI controller.
    - `norm`: "rms" over blocks, each divided by the square root of its size, or "euclidean" over all components (with
      rtol=0 the |σ - σ̂| < tol of Celledoni et al. 2021, eq. (33)).
    - `first_step`: chosen by a rule from the field and its change along it if None.
    - `max_step`: upper limit of the step.
    """

    safety: float = eqx.field(static=True)
    min_factor: float = eqx.field(static=True)
    max_factor: float = eqx.field(static=True)
    exponent: float | None = eqx.field(static=True)
    pi: float = eqx.field(static=True)
    norm: Literal["rms", "euclidean"] = eqx.field(static=True)
    first_step: float | None = eqx.field(static=True)
    max_step: float | None = eqx.field(static=True)

    def __init__(
        self,
        safety: float = 0.9,
        min_factor: float = 0.2,
        max_factor: float = 5.0,
        exponent: float | None = None,
        pi: float = 0.0,
        norm: Literal["rms", "euclidean"] = "rms",
        first_step: float | None = None,
        max_step: float | None = None,
    ) -> None:
        checks.choice("norm", norm, ("rms", "euclidean"))
        self.norm = norm
        self.safety = checks.number("safety", safety, _MEANING)
        self.min_factor = checks.number("min_factor", min_factor, _MEANING)
        self.max_factor = checks.number("max_factor", max_factor, _MEANING)
        self.pi = checks.number("pi", pi, _MEANING)
        self.exponent = None if exponent is None else checks.number("exponent", exponent, _MEANING)
        self.first_step = None if first_step is None else checks.number("first_step", first_step, _MEANING)
        self.max_step = None if max_step is None else checks.number("max_step", max_step, _MEANING)

    def __check_init__(self) -> None:
        if not 0 < self.safety <= 1:
            raise ValueError(f"`safety` must be in (0, 1], got {self.safety}; 0.8 to 0.9 is usual.")
        if not 0 < self.min_factor < 1 < self.max_factor:
            raise ValueError(
                f"need 0 < min_factor < 1 < max_factor, got {self.min_factor} and {self.max_factor}; "
                "0.2 and 5 are usual."
            )
        for name in ("first_step", "max_step", "exponent"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"`{name}` must be positive or None, got {value}.")
        if not 0 <= self.pi < 1:
            raise ValueError(f"`pi` must be in [0, 1), got {self.pi}; 0.4 is usual.")

    def measure(self, space: AbstractSpace, error: Any, q0: Point, q1: Point, tolerances: Tolerances) -> Array:
        """The norm ε of a local error; a step is acceptable up to 1."""
        scale = tolerances.atol + tolerances.rtol * jnp.maximum(space.scale(q0), space.scale(q1))
        squares, sizes, at = [], space.blocks, 0
        for k, size in enumerate(sizes):
            block = error[at : at + size]
            mean = jnp.sum(block * block) / (size if self.norm == "rms" else 1)
            squares.append(mean / (scale[k] * scale[k]))
            at += size
        return jnp.sqrt(sum(squares) / (len(sizes) if self.norm == "rms" else 1))

    def factor(self, error: Array, previous: Array, order: int | Array) -> Array:
        """Change of the step after an error `error`, the last accepted one being `previous`."""
        alpha = self.exponent or 1.0 / (1 + order)
        tiny = 1e-10
        raw = self.safety * jnp.maximum(error, tiny) ** -alpha
        if self.pi:
            raw = raw * jnp.maximum(previous, tiny) ** (self.pi * alpha)
        return jnp.clip(jnp.where(jnp.isfinite(raw), raw, self.min_factor), self.min_factor, self.max_factor)


def first_step(
    control: StepControl,
    space: AbstractSpace,
    field,
    t: Array,
    span: Array,
    q: Point,
    order: int,
    tolerances: Tolerances,
) -> Array:
    """A first step from the size of the field and of its change along it.

    The rule of Hairer, Nørsett and Wanner, Solving ODEs I, II.4, with the Euler probe made by `space.move` and all
    norms taken in the algebra, where they do not depend on the inertial frame.
    """
    v0 = field(t, q)
    reference = jnp.sqrt(sum(space.scale(q) ** 2) / len(space.blocks))
    speed = control.measure(space, v0, q, q, tolerances)
    size = reference / (tolerances.atol + tolerances.rtol * reference)
    probe = jnp.where((speed > 1e-5) & (size > 1e-5), 0.01 * size / jnp.maximum(speed, 1e-300), 1e-6)
    probe = jnp.minimum(probe, jnp.abs(span))
    direction = jnp.sign(span)
    v1 = field(t + direction * probe, space.move(q, direction * probe * v0))
    curvature = control.measure(space, v1 - v0, q, q, tolerances) / probe
    steepest = jnp.maximum(speed, curvature)
    h = jnp.where(steepest > 1e-15, (0.01 / jnp.maximum(steepest, 1e-300)) ** (1.0 / (order + 1)), probe * 1e3)
    h = jnp.minimum(jnp.minimum(100 * probe, h), jnp.abs(span))
    return jax.lax.stop_gradient(h)
