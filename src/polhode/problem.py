"""A problem: a named, complete initial-value problem with outputs, invariants and reference values."""

from __future__ import annotations

import dataclasses
import functools
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple, TypedDict

from jax.core import Tracer

from polhode import checks, summary
from polhode.name_errors import missing_attribute
from polhode.systems.base import AbstractSystem, Observable, State

if TYPE_CHECKING:
    from polhode.assembly.name_table import NameTable
    from polhode.multibody.dynamics import Dynamics
    from polhode.solution.solution import Solution


class Choice(NamedTuple):
    """The reasons for coordinates and method of a problem; "" for what the user has chosen.

    - `coordinates`: the formulation, and why. - `method`: the integrator, and why.
    """

    coordinates: str = ""
    method: str = ""

    def __str__(self) -> str:
        return "; ".join(reason for reason in self if reason)


NO_CHOICE = Choice()
"""The user has chosen everything."""


class Reference(TypedDict):
    """A value to compare with: at time `t` the output is `value` within `error`, according to `source`."""

    t: Any
    value: Any
    error: float
    source: str


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Problem:
    """A named initial-value problem.

    - `name`: kebab-case, as in `problems.names()`.
    - `system`, `state0`, `t_span`: what is solved.
    - `parameters`: every number and option that the problem was built from.
    - `doc`: what it is and where its data come from.
    - `outputs`: physical quantities, name → (t, state) → array; in the inertial frame unless named otherwise.
    - `invariants`: quantities that the exact motion keeps; "energy" for conservative problems.
    - `reference`: output name → value with time, error bound and source.
    - `integrator`, `h`: the recommended method and constant step.
    - `scene`: how to draw it (see `polhode.viewing`), or None.
    - `build`: rebuilds the problem from parameters; traceable in the numeric ones.
    - `origin`: "file" if `polhode.load_model` made it, with the arguments in `parameters`.
    - `choice`: why it has these coordinates and this method, where the library has chosen them.
    - `build_time`: seconds that building it took, 0 where that was not measured.
    - `named`: the name table of its bodies and joints, if it is that of a model.
    """

    name: str
    system: AbstractSystem
    state0: State
    t_span: tuple[float, float]
    parameters: Mapping[str, Any]
    doc: str
    outputs: Mapping[str, Observable]
    invariants: Mapping[str, Observable]
    reference: Mapping[str, Reference]
    integrator: str
    h: float
    scene: Any = None
    build: Callable[..., Problem] | None = None
    origin: str | None = None
    choice: Choice = NO_CHOICE
    build_time: float = 0.0
    named: NameTable | None = None

    def __repr__(self) -> str:
        start, end, h = ("traced" if isinstance(x, Tracer) else f"{x:g}" for x in (*self.t_span, self.h))
        return (
            f"Problem({self.name!r}, {type(self.system).__name__}, t = {start} … {end}, {self.integrator} with h = "
            f"{h}, outputs: {', '.join(self.outputs)}{f'; {self.choice}' if str(self.choice) else ''}"
            f"{f'; contacts: {contacts}' if (contacts := self._contact_row()) else ''})"
        )

    def _repr_html_(self) -> str:
        start, end, h = ("traced" if isinstance(x, Tracer) else f"{x:g}" for x in (*self.t_span, self.h))
        parameters = {name: value for name, value in self.parameters.items() if name != "formulation"}
        rows = [
            ("system", f"{type(self.system).__name__}, {self.parameters.get('formulation', self.system.kind_name)}"),
            ("time", f"{start} … {end}"),
            ("method", f"{self.integrator} with h = {h}"),
            ("parameters", ", ".join(f"{name} = {checks.short_repr(value)}" for name, value in parameters.items())),
            ("bodies", ", ".join(self.named.metadata["bodies"]) if self.named else ""),
            ("joints", ", ".join(self.named.metadata["joints"]) if self.named else ""),
            ("contacts", self._contact_row()),
            ("outputs", ", ".join(self.outputs)),
            ("invariants", ", ".join(self.invariants)),
            ("chosen", str(self.choice)),
        ]
        return summary.html(f"Problem {self.name}", [row for row in rows if row[1]])

    def _contact_row(self) -> str:
        """Pairs of bodies that may touch, or what has shapes without a rule that lets them touch."""
        names = self.named.metadata if self.named else {}
        shaped = names.get("untouchable", ())
        if shaped:
            return f"none, although {', '.join(shaped[:_MOST_LISTED])} have shapes: `model.contacts()` lets them touch"
        pairs = dict.fromkeys("/".join(pair["bodies"]) for pair in names.get("contacts", {}).get("pairs", ()))
        more = f" and {len(pairs) - _MOST_LISTED} more" if len(pairs) > _MOST_LISTED else ""
        joints = [each["along"].replace("`", "") for each in names.get("contacts", {}).get("along", ())]
        own = f"stops or dry friction of {len(joints)} coordinates" if len(joints) > 1 else "".join(joints)
        return "; ".join(filter(None, (f"{', '.join([*pairs][:_MOST_LISTED])}{more}", own)))

    @functools.cached_property
    def dynamics(self) -> Dynamics:
        """M, bias, forward and inverse dynamics and Jacobians of a model as functions.

        Raises ValueError for systems other than bodies in coordinates (q, v).
        """
        from polhode.multibody.dynamics import Dynamics
        from polhode.multibody.system import MultibodySystem

        if not isinstance(self.system, MultibodySystem):
            raise ValueError(
                f"`dynamics` are those of a model in coordinates (q, v), and problem `{self.name}` has a "
                f"{self.system.kind_name}. Take the model in others: `model.problem('minimal')`."
            )
        return Dynamics(self.system)

    @functools.cached_property
    def start(self) -> Solution:
        """The initial state as a run of one frame: its bodies and joints by name, outputs and energies.

        Nothing is solved or compiled. Velocities are those of the model, before a run makes them consistent.
        """
        from polhode.first_frame import first_frame

        return first_frame(self)

    def show(self, *, block: bool | None = None, browser: bool = True) -> Any:
        """Shows the initial state: bodies, joints, supports and applied forces. Arguments: see `Solution.show`."""
        return self.start.show(block=block, browser=browser)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise missing_attribute("A Problem", name, dir(type(self)), _INSTEAD)

    def replace(self, **parameters: Any) -> Problem:
        """The same problem with some parameters changed; numeric ones may be traced by JAX."""
        if self.build is None:
            raise ValueError(f"Problem `{self.name}` was made by hand; rebuild it instead of replacing parameters.")
        unknown = sorted(set(parameters) - set(self.parameters))
        if unknown:
            raise ValueError(
                f"Problem `{self.name}` has no parameter {', '.join(map(repr, unknown))}; "
                f"it has {', '.join(sorted(self.parameters))}.{checks.nearest(unknown[0], self.parameters)}"
            )
        return timed_build(self.build, **{**self.parameters, **parameters})


_MOST_LISTED = 20
"""Names that a summary lists."""

_HOW_TO_RUN = "Run it: `run = polhode.simulate(problem)`"
_INSTEAD = {
    **dict.fromkeys(
        ("plot", "view", "draw", "render"), f"`problem.show()` has the start. {_HOW_TO_RUN}, `run.show()`."
    ),
    **dict.fromkeys(("simulate", "run", "solve", "integrate"), f"{_HOW_TO_RUN}."),
    **dict.fromkeys(("step", "stepping"), "`polhode.stepping(problem, h=…)` makes single steps."),
}
"""Names that users often try first."""


def timed_build(make: Callable[..., Problem], **parameters: Any) -> Problem:
    """The problem that `make` builds, with the time that it took."""
    began = time.perf_counter()
    problem = make(**parameters)
    return dataclasses.replace(problem, build_time=time.perf_counter() - began)
