"""The common face of all kinds of systems."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import equinox as eqx
import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.spaces.base import AbstractSpace
from polhode.spaces.checks import check_point

State = Any
"""A state: a point of `system.state_space`. For mechanical systems the pair (q, v)."""


Observable = Callable[[Array, State], Array]
"""(t, state) → array; must be traceable by JAX."""


class AbstractSystem(eqx.Module):
    """Equations of motion on a space; knows nothing of step sizes.

    The fields of a system are its parameters: gradients with respect to masses, lengths or control gains are
    taken with respect to the system's leaves.
    """

    kind_name: ClassVar[str] = "system"
    """The name of this kind of system in messages: a noun that follows "a" or "this"."""

    @property
    @abc.abstractmethod
    def state_space(self) -> AbstractSpace:
        """The space of which `state` is a point; errors and step sizes are measured in its algebra."""

    @abc.abstractmethod
    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        """Max-norm violations at one state: "manifold" always, "position" and "velocity" for constraints."""

    def as_state(self, state: Any, name: str) -> State:
        """A state that a user gives, called `name` in messages, in arrays of double precision.

        Raises ValueError for what is none.
        """
        return check_point(self.state_space, state, name)

    def check(self, t: float, state: State) -> None:
        """Evaluate the shapes of user-written functions once, so that wrong ones are explained before compiling.

        Raises ValueError.
        """
        del t, state

    @property
    def state_hint(self) -> str:
        """How to make a state; ends messages about what isn't one."""
        return ""

    def velocity(self, t: Array, state: State) -> Array | None:
        """The algebra element of `state_space` with which the state moves, or None if it takes more than the state.

        Error control estimates its first step from it.
        """
        del t, state
        return None

    def outputs(self) -> dict[str, Observable]:
        """Physical quantities that runs of the bare system report, name → (t, state) → array."""
        return {}

    def invariants(self) -> dict[str, Observable]:
        """Quantities that the exact motion keeps, name → (t, state) → array; for runs of the bare system."""
        return {}

    @property
    def picture(self) -> Mapping[str, Any] | None:
        """How to draw runs of the bare system from its outputs, in plain values; None if it has no picture."""
        return None

    def diagnose(self, t: float, state: State) -> str:
        """A diagnosis of a state at which a method failed, in words that name its parts; may be empty."""
        del t, state
        return ""

    def failure(self, t: Array, state: State) -> Array | None:
        """A `Result` code, int32, for what can be wrong with a state although every step went well; 0 if nothing is.

        None where there is no such thing. The driver asks after every step.
        """
        del t, state
        return None

    @property
    def counts(self) -> bool:
        """Whether something is counted along the motion, such as the turns of joints, and kept with the state."""
        return False

    def for_step_from(self, state: State) -> Self:
        """The system for a step from a state: what is counted along the motion is read near what it is there."""
        del state
        return self

    def without_turns(self, state: State) -> State:
        """A state as methods take it, where they can't take what is counted."""
        return state

    def count_turns(self, before: State, after: State, h: Any) -> State:
        """A state with what is counted along the motion, from one that was h earlier."""
        del before, h
        return after

    def turn_failure(self, before: State, after: State) -> Array | None:
        """A `Result` code, int32, for a step in which what is counted moved too far to be read; 0 for others.

        None where there is no such thing.
        """
        del before, after
        return None

    def breakpoints(self) -> tuple[float, ...]:
        """Instants at which loads or drives jump or have kinks, as far as they say so; steps end there."""
        return ()

    def explicit_limit(self, t: float, state: State, h: float, share: float = 1.0) -> str:
        """Why explicit methods can't take a step h from a state, in words; empty if they can or nobody knows.

        `share` of the estimated limit is what counts as too large.
        """
        del t, state, h, share
        return ""

    @property
    def has_stiff_forces(self) -> bool:
        """Whether stiff parts with waves bound the step of explicit methods, which is then checked before a run."""
        return False

    def conversions(self) -> tuple[AbstractConversion, ...]:
        """Ways to write it as a system of another kind with the same motion, those that lose least first."""
        return ()


def shape_of(
    name: str, function: Any, arguments: tuple[Any, ...], expected_shape: tuple[int, ...], meaning: str
) -> None:
    """Raises ValueError unless `function(*arguments)` can be traced and returns one array of the wanted shape."""
    if isinstance(function, type):
        raise ValueError(f"`{name}` must be a function, got the class {function.__name__}. Pass an instance of it.")
    if not callable(function):
        raise ValueError(f"`{name}` must be a function, got {type(function).__name__}.")
    try:
        shape = jax.eval_shape(function, *arguments)
    except Exception as error:
        raise ValueError(
            f"`{name}` can't be traced by JAX at the initial state: {type(error).__name__}: "
            f"{str(error).splitlines()[0] if str(error) else ''} Write it with jax.numpy, as a function of what its "
            "name lists."
        ) from error
    got = getattr(shape, "shape", None)
    if got != expected_shape:
        raise ValueError(
            f"`{name}` must return one array of shape {expected_shape}, {meaning}, got "
            f"{type(shape).__name__ if got is None else f'shape {got}'}."
        )
    if not expected_shape and not jnp.issubdtype(shape.dtype, jnp.floating):
        raise ValueError(
            f"`{name}` must return a floating-point number, {meaning}, which is differentiated; got {shape.dtype}. "
            "Write 0.0 for 0, and take floating-point parameters."
        )


class Converted(NamedTuple):
    """A system of another kind, with maps between its states and those of its source.

    - `system`: of the kind that was asked for. - `into`: from a state of the source to one of `system`. - `back`: the
      other way; None where both have the same states.
    """

    system: AbstractSystem
    into: Callable[[State], State] | None = None
    back: Callable[[State], State] | None = None

    def to_system(self, state: State) -> State:
        """A state of the source as one of `system`."""
        return state if self.into is None else self.into(state)

    def to_source(self, state: State) -> State:
        """A state of `system` as one of the source."""
        return state if self.back is None else self.back(state)

    def convert_observable(self, observable: Callable[[Array, State], Any]) -> Callable[[Array, State], Any]:
        """A function of time and states of the source as one of states of `system`."""
        return observable if self.back is None else ConvertedObservable(observable, self.back)


class ConvertedObservable(eqx.Module):
    """A function of time and of states of the source of a conversion, evaluated at states of the other system."""

    observable: Callable[[Array, State], Any]
    back: Callable[[State], State]

    def __call__(self, t: Array, state: State) -> Any:
        return self.observable(t, self.back(state))


class AbstractConversion(eqx.Module):
    """A way to write a system as one of another kind that has the same motions."""

    @property
    @abc.abstractmethod
    def kind(self) -> type[AbstractSystem]:
        """Class of the systems that it makes."""

    @property
    @abc.abstractmethod
    def note(self) -> str:
        """A remark for users, without a full stop; may be empty."""

    @property
    @abc.abstractmethod
    def obstacle(self) -> str:
        """Why the system can't be written that way, as the end of a sentence; empty if it can."""

    @property
    def special(self) -> bool:
        """Whether only systems of a special form can be written that way, so that others aren't told why they can't."""
        return False

    @abc.abstractmethod
    def at(self, state: State) -> Converted:
        """The converted system; `state` is one of the source, in whose neighbourhood the motion begins."""
