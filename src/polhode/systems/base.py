"""The interface of all systems, and of conversions between them."""

from __future__ import annotations

import abc
from collections.abc import Callable, Mapping
from typing import Any, ClassVar, NamedTuple, Self

import jax
import jax.numpy as jnp
from jaxtyping import Array

from polhode.modules import Module
from polhode.spaces.base import AbstractSpace
from polhode.spaces.checks import check_point

State = Any
"""A state: a point of `system.state_space`. For mechanical systems the pair (q, v)."""


Observable = Callable[[Array, State], Array]
"""(t, state) → array; must be traceable by JAX."""


class AbstractSystem(Module):
    """Equations of motion on a space, independent of step sizes.

    The fields of a system are its parameters: gradients with respect to masses, lengths or control gains are
    taken with respect to the system's leaves.
    """

    kind_name: ClassVar[str] = "system"
    """Name of this kind of system in messages: a noun that follows "a" or "this"."""

    @property
    @abc.abstractmethod
    def state_space(self) -> AbstractSpace:
        """The space of which `state` is a point; errors and step sizes are measured in its algebra."""

    @abc.abstractmethod
    def residuals(self, t: Array, state: State) -> dict[str, Array]:
        """Max-norm violations at one state: "manifold" always, "position" and "velocity" for constraints."""

    def as_state(self, state: Any, name: str) -> State:
        """A user's state in arrays of double precision; messages call it `name`.

        Raises ValueError for values that are no state.
        """
        return check_point(self.state_space, state, name)

    def check(self, t: float, state: State) -> None:
        """Check the shapes that user functions return, before compilation.

        Raises ValueError.
        """
        del t, state

    @property
    def state_hint(self) -> str:
        """How to make a state: the end of messages about invalid states."""
        return ""

    def velocity(self, t: Array, state: State) -> Array | None:
        """Velocity of the state in the algebra of `state_space`; None if it depends on more than the state.

        Error control estimates its first step from it.
        """
        del t, state
        return None

    def outputs(self) -> dict[str, Observable]:
        """Physical quantities that runs of the bare system report, name → (t, state) → array."""
        return {}

    def invariants(self) -> dict[str, Observable]:
        """Invariants of the exact motion, name → (t, state) → array; for runs of the bare system."""
        return {}

    @property
    def picture(self) -> Mapping[str, Any] | None:
        """Description of a scene that draws runs of the bare system from its outputs; None if there is none."""
        return None

    @property
    def has_contacts(self) -> bool:
        """Whether parts touch each other by unilateral laws, which only methods with `takes_contacts` impose."""
        return False

    @property
    def has_holds(self) -> bool:
        """Whether some of them have dry friction with bounds of its own, as joints do."""
        return False

    @property
    def has_grips(self) -> bool:
        """Whether such bounds are elastic forces of compliant contacts."""
        return False

    @property
    def has_poisson_impacts(self) -> bool:
        """Whether restitution of its contacts is one of impulses."""
        return False

    @property
    def has_bearings(self) -> bool:
        """Whether such bounds grow with forces of joints."""
        return False

    def diagnose(self, t: float, state: State) -> str:
        """Diagnosis of a state at which a method failed, by the names of parts; may be empty."""
        del t, state
        return ""

    def failure(self, t: Array, state: State) -> Array | None:
        """A `Result` code, int32, for states that are invalid although every step succeeded; 0 for valid ones.

        None for systems without such states. Evaluated after every step.
        """
        del t, state
        return None

    @property
    def counts(self) -> bool:
        """Whether states contain angles whose turns are counted along the motion, such as those of joints."""
        return False

    def for_step_from(self, state: State) -> Self:
        """The system for a step from a state: counted angles are evaluated within half a turn of their values there."""
        del state
        return self

    def without_turns(self, state: State) -> State:
        """A state without counted angles, for methods that can't take them."""
        return state

    def count_turns(self, before: State, after: State, h: Any) -> State:
        """The later state with its angles counted, from the state h earlier."""
        del before, h
        return after

    def turn_failure(self, before: State, after: State) -> Array | None:
        """A `Result` code, int32, for steps in which angles turn too far to be counted; 0 for others.

        None for systems without counted angles.
        """
        del before, after
        return None

    @property
    def has_onsets(self) -> bool:
        """Whether loads come into force within a short way, as those of stops, so that steps are divided there."""
        return False

    def onset_rate(self, state: State, sense: Array) -> Array:
        """The reciprocal of how long a step from a state may be so that it resolves these onsets; 0: of any length.

        `sense`: 1 for steps forward in time, -1 for steps back.
        """
        del state, sense
        return jnp.zeros(())

    def without_slope(self) -> Self:
        """The system without values for the start of a step, which its parts don't share."""
        return self

    def breakpoints(self) -> tuple[float, ...]:
        """Times of declared jumps and kinks of loads and drives; steps end there, but see `kinks`."""
        return ()

    def kinks(self) -> tuple[float, ...]:
        """Those of them at which loads and drives have kinks only: methods need no restart there.

        Constant steps end there where the order of the method asks for it and kinks are sparse.
        """
        return ()

    def explicit_limit(self, t: float, state: State, h: float, share: float = 1.0) -> str:
        """Why a step h is unstable for explicit methods at a state; empty if it is stable or no limit is known.

        Steps above `share` of the estimated limit count as too large.
        """
        del t, state, h, share
        return ""

    @property
    def has_stiff_forces(self) -> bool:
        """Whether stiff force elements bound the step of explicit methods, so that runs check the step first."""
        return False

    @property
    def has_reverse_derivative(self) -> bool:
        """Whether runs have derivatives in reverse mode."""
        return True

    def conversions(self) -> tuple[AbstractConversion, ...]:
        """Conversions to systems of other kinds with the same motion, in order of preference."""
        return ()


def shape_of(
    name: str, function: Any, arguments: tuple[Any, ...], expected_shape: tuple[int, ...], meaning: str
) -> None:
    """Raises ValueError unless `function(*arguments)` can be traced and returns one array of the expected shape."""
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

    - `system`: of the requested kind. - `into`: from a state of the source to one of `system`. - `back`: the
      inverse; None where both have the same states.
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


class ConvertedObservable(Module):
    """A function of time and of states of the source of a conversion, evaluated at states of the other system."""

    observable: Callable[[Array, State], Any]
    back: Callable[[State], State]

    def __call__(self, t: Array, state: State) -> Any:
        return self.observable(t, self.back(state))


class AbstractConversion(Module):
    """A conversion of a system to one of another kind with the same motions."""

    @property
    @abc.abstractmethod
    def kind(self) -> type[AbstractSystem]:
        """Class of the converted systems."""

    @property
    @abc.abstractmethod
    def note(self) -> str:
        """A remark for users, without a full stop; may be empty."""

    @property
    @abc.abstractmethod
    def obstacle(self) -> str:
        """Why the system can't be converted, as the end of a sentence; empty if it can."""

    @property
    def special(self) -> bool:
        """Whether only systems of a special form can be converted, so that messages leave its `obstacle` out."""
        return False

    @abc.abstractmethod
    def at(self, state: State) -> Converted:
        """The converted system; `state` is a state of the source near the start of the motion."""
