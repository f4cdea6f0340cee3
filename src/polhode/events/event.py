"""Events: functions of time and state whose zero crossings are located during a run, and actions there."""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode import checks
from polhode.checks import short_repr
from polhode.name_errors import UnknownName
from polhode.systems.base import AbstractSystem, State


class Event(eqx.Module):
    """A zero crossing of a function, located within a step, and the actions there.

    The event lies where steps of the method itself end in a zero: steps are repeated, shorter, until the zero is
    bracketed within `tolerance`. So the state there is on its space, keeps constraints as all ends of steps do, and
    has the accuracy of the method. The event is at the end of the bracket at which the function has passed zero.

    **Arguments:**

    - `function`: (t, state) → one number of any unit; or (t, state, system), where `system` may change; or the name
      of an output that is one number. Traceable by JAX, and continuous: a jump across zero, as that of an angle
      after half a turn, is no crossing, except of functions that are constant between jumps.
    - `action`: (t, state) or (t, state, system) → the state after the event. It must keep the constraints.
      None: the state stays. One that JAX can trace is a part of the compiled steps; others are called from Python,
      which takes milliseconds each time.
    - `change`: (t, state, system) → the system after the event, with other numbers of the same shapes, such as a
      coefficient of friction or a stiffness; `state` is that before the action. None: the system stays.
    - `terminal`: whether the run ends there.
    - `direction`: -1 for crossings from positive to negative only, 1 for the others, 0 for both.
    - `name`: in tables and messages.
    - `tolerance`: width of the bracket, in the unit of time; never less than the resolution of time.
    - `inside`: number of instants within each step at which the function is evaluated besides the ends, in states of
      the cubic through states and velocities there; more of them where it changes faster.

    Raises ValueError for invalid arguments.
    """

    function: Callable[..., Array] | str
    action: Callable[..., State] | None
    change: Callable[[Array, State, Any], AbstractSystem] | None
    terminal: bool = eqx.field(static=True)
    direction: int = eqx.field(static=True)
    name: str = eqx.field(static=True)
    tolerance: float = eqx.field(static=True)
    inside: int = eqx.field(static=True)

    def __init__(
        self,
        function: Callable[..., Array] | str,
        action: Callable[..., State] | None = None,
        *,
        change: Callable[[Array, State, Any], AbstractSystem] | None = None,
        terminal: bool = False,
        direction: int = 0,
        name: str = "event",
        tolerance: float = 1e-12,
        inside: int = 7,
    ) -> None:
        for what, value in (("function", function), ("action", action), ("change", change)):
            optional = value is None and what != "function"
            if not (callable(value) or optional or (what == "function" and isinstance(value, str))):
                raise ValueError(f"`{what}` of an event must be a function, got {short_repr(value)}.")
        self.function, self.action, self.change = function, action, change
        self.terminal = checks.flag("terminal", terminal)
        if direction not in (-1, 0, 1):
            raise ValueError(f"`direction` must be -1 (falling), 0 (both) or 1 (rising), got {short_repr(direction)}.")
        self.direction = int(direction)
        self.name = checks.word("name", name, "of an event")
        self.tolerance = checks.number("tolerance", tolerance, "of an event, in the unit of time")
        if self.tolerance <= 0:
            raise ValueError(f"`tolerance` of an event must be positive, got {self.tolerance:g}; 1e-12 is the default.")
        self.inside = int(inside) if inside == 0 else checks.count("inside", inside, "instants within a step", 100)

    def to_dict(self) -> dict[str, Any]:
        """Description in plain values."""
        changes = {} if self.change is None else {"changes": True}
        return {"name": self.name, "direction": self.direction, "terminal": self.terminal, **changes}


class Function(eqx.Module):
    """A user's function of time, state and system, called with as many of them as it takes.

    - `back`: from states of the method's system to those of the user's, or None.
    """

    function: Callable[..., Any]
    back: Callable[[State], State] | None
    count: int = eqx.field(static=True)

    def __init__(self, function: Callable[..., Any], back: Callable[[State], State] | None = None) -> None:
        self.function, self.back, self.count = function, back, _arguments(function)

    def __call__(self, t: Any, state: State, system: AbstractSystem) -> Any:
        own_state = state if self.back is None else self.back(state)
        return self.function(*(t, own_state, system)[: self.count])


def flatten_events(events: Any) -> tuple[Event, ...]:
    """`events` as a tuple, nested lists flattened, without duplicates.

    Raises ValueError for other values.
    """
    unique: list[Event] = []
    for event in _flatten(events):
        if not any(_is_duplicate(event, other) for other in unique):
            unique.append(event)
    return tuple(unique)


def _flatten(events: Any) -> Iterator[Event]:
    if isinstance(events, Event):
        yield events
    elif isinstance(events, Sequence) and not isinstance(events, str):
        for event in events:
            yield from _flatten(event)
    else:
        raise ValueError(f"`events` must be a list of polhode.Event, got {short_repr(events)} in it.")


def _is_duplicate(a: Event, b: Event) -> bool:
    """Whether two events are the same object, or equal ones with actions, which both would act at once."""
    if a is b:
        return True
    if a.action is None and a.change is None:
        return False
    pairs = zip(jax.tree.leaves(a), jax.tree.leaves(b), strict=False)
    return jax.tree.structure(a) == jax.tree.structure(b) and all(_is_equal(x, y) for x, y in pairs)


def _is_equal(a: Any, b: Any) -> bool:
    """Whether two parts of events are one object, equal numbers, or the same code with equal closures."""
    if a is b:
        return True
    if isinstance(a, types.FunctionType) and isinstance(b, types.FunctionType):
        around = [[*(f.__defaults__ or ()), *(cell.cell_contents for cell in f.__closure__ or ())] for f in (a, b)]
        return a.__code__ is b.__code__ and len(around[0]) == len(around[1]) and all(map(_is_equal, *around))
    if eqx.is_array_like(a) and eqx.is_array_like(b) and checks.is_concrete(a) and checks.is_concrete(b):
        return np.array_equal(np.asarray(a), np.asarray(b))
    return isinstance(a, str) and a == b


def function_of(event: Event, outputs: Mapping[str, Callable], back: Any) -> Function:
    """The function of an event. Raises ValueError for names of unknown outputs."""
    if not isinstance(event.function, str):
        return Function(event.function, back)
    if event.function not in outputs:
        near = checks.nearest(event.function, outputs)
        names = ", ".join(outputs) or "none"
        raise ValueError(f"Event `{event.name}`: there is no output `{event.function}`.{near} Outputs: {names}.")
    return Function(outputs[event.function], back)


def check_function(event: Event, function: Function, state: State, system: AbstractSystem) -> None:
    """Raises ValueError unless the function can be traced at states of that shape and returns one number."""
    try:
        shape = jax.eval_shape(lambda t, state: function(t, state, system), jnp.zeros(()), state)
    except UnknownName as error:
        raise ValueError(f"Event `{event.name}`: {error}") from error
    except Exception as error:
        first = str(error).splitlines()[0] if str(error) else ""
        raise ValueError(
            f"The function of event `{event.name}` can't be traced by JAX: {type(error).__name__}: {first} Write it "
            f"with jax.numpy, as a function of t and state; state is {_form(state)}."
        ) from error
    if getattr(shape, "shape", None) != () or not jnp.issubdtype(shape.dtype, jnp.floating):
        got = f"shape {shape.shape} of {shape.dtype}" if hasattr(shape, "shape") else type(shape).__name__
        raise ValueError(f"The function of event `{event.name}` must return one floating-point number, got {got}.")


def _form(state: State) -> str:
    """Describes the form of a state."""
    shapes = jax.tree.map(lambda x: tuple(x.shape), state)
    if not isinstance(state, tuple):
        return f"an array of shape {shapes}"
    return f"{'(q, v)' if type(state) is tuple and len(state) == 2 else 'a tuple'} with arrays of shapes {shapes}"


def _arguments(function: Callable[..., Any]) -> int:
    """How many of time, state and system a function takes: three if it takes that many, otherwise two."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return 2
    places = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD) and p.default is p.empty]
    return 3 if len(places) >= 3 else 2
