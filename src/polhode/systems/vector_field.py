"""First-order systems on a space."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any, ClassVar

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.spaces.base import AbstractSpace, Point, Vector
from polhode.systems.base import AbstractConversion, AbstractSystem, Converted, State, shape_of
from polhode.time_functions import breakpoints_of, kinks_of


class VectorField(AbstractSystem):
    r"""A first-order system: the velocity of `q` is the algebra element `field(t, q)`.

    In the conventions of `AbstractSpace`, $q(t+\epsilon) = \mathrm{move}(q, \epsilon f(t,q)) + O(\epsilon^2)$: for a
    group `field` returns the body-fixed velocity, for a homogeneous space the generator of the left action.

    **Arguments:**

    - `space`: where q lives.
    - `field`: callable (t, q) → array of shape `(space.dim,)`. Make it an `equinox.Module` to give it parameters
      that can be differentiated and batched.
    - `failing`: callable (t, q) → a `Result` code, see `AbstractSystem.failure`; None if all states are valid.
    - `counter`: a system with the same states that counts turns of angles along the motion; None without any.
    - `slope`: the field where the next step begins, if it has been evaluated there already.
    - `onsets`: a system with the same states whose loads come into force within short ways; None without any.
    """

    kind_name: ClassVar = "first-order system"

    space: AbstractSpace
    field: Callable[[Array, Point], Vector]
    failing: Callable[[Array, Point], Array | None] | None = None
    counter: AbstractSystem | None = None
    slope: Vector | None = None
    onsets: AbstractSystem | None = None

    @property
    def state_space(self) -> AbstractSpace:
        return self.space

    def check(self, t: float, state: State) -> None:
        meaning = f"the algebra element of {type(self.space).__name__}"
        shape_of("field(t, q)", self.field, (jnp.asarray(t), state), (self.space.dim,), meaning)

    def velocity(self, t: Array, state: State) -> Vector:
        return self.field(t, state)

    def breakpoints(self) -> tuple[float, ...]:
        return breakpoints_of(self.field)

    def kinks(self) -> tuple[float, ...]:
        return kinks_of(self.field)

    def failure(self, t: Array, state: State) -> Array | None:
        return None if self.failing is None else self.failing(t, state)

    @property
    def counts(self) -> bool:
        return self.counter is not None

    def count_turns(self, before: State, after: State, h: Any) -> State:
        return after if self.counter is None else self.counter.count_turns(before, after, h)

    def turn_failure(self, before: State, after: State) -> Array | None:
        return None if self.counter is None else self.counter.turn_failure(before, after)

    @property
    def has_onsets(self) -> bool:
        return self.onsets is not None

    def onset_rate(self, state: State, sense: Array) -> Array:
        return super().onset_rate(state, sense) if self.onsets is None else self.onsets.onset_rate(state, sense)

    def without_slope(self) -> VectorField:
        return dataclasses.replace(self, slope=None)

    def diagnose(self, t: float, state: State) -> str:
        return "" if self.counter is None else self.counter.diagnose(t, state)

    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        del t
        return {"manifold": self.space.residual(state)}

    def derivative(self, t: Array, q: Point) -> Point:
        """The velocity in the ambient coordinates in which `q` is stored."""
        v = self.field(t, q)
        return jax.jvp(lambda s: self.space.move(q, s * v), (0.0,), (1.0,))[1]


class ToVectorField(AbstractConversion):
    """The velocity of the state as a vector field on its space; states stay the same.

    - `remark`: note on constraints that the field keeps on the level of accelerations only.
    """

    source: AbstractSystem
    remark: str = eqx.field(static=True, default="")

    @property
    def kind(self) -> type[VectorField]:
        return VectorField

    @property
    def note(self) -> str:
        return self.remark

    @property
    def obstacle(self) -> str:
        return ""

    def at(self, state: State) -> Converted:
        del state
        source = self.source
        # Only constraints can fail although a step went well.
        failure = source.failure if self.remark else None
        counter, onsets = (source if has else None for has in (source.counts, source.has_onsets))
        field = VectorField(source.state_space, _Velocity(source), failure, counter, onsets=onsets)
        return Converted(field)


class _Velocity(eqx.Module):
    """The velocity of a system's state."""

    system: AbstractSystem

    @property
    def breakpoints(self) -> tuple[float, ...]:
        """Breakpoints of the system."""
        return self.system.breakpoints()

    @property
    def kinks(self) -> tuple[float, ...]:
        """Kinks of the system."""
        return self.system.kinks()

    def __call__(self, t: Array, state: State) -> Vector:
        velocity = self.system.velocity(t, state)
        assert velocity is not None
        return velocity
