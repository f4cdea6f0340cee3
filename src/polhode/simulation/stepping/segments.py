"""A run as a sequence of segments between breakpoints, each with steps of its own."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import equinox as eqx
from jaxtyping import Array

from polhode.integrators.base import AbstractIntegrator
from polhode.simulation.stepping.step_control import StepControl
from polhode.simulation.stepping.stepper import AbstractStepper, Progress

_SHORT = 2
"""Units of round-off by which steps end before a breakpoint, or begin after it, for loads: two, so that the sum of
start and length of a step rounds to the same side. The value of a load at the breakpoint itself then doesn't matter."""


class Breakpoints(NamedTuple):
    """Instants at which loads may jump: those within a span, and whether its ends are among them.

    - `inner`: those at which methods restart, in segments of their own. - `stops`: others at which steps end, within
      one segment; methods need no restart, or have one within their steps. - `jumps`: those stops at which loads jump.
    """

    inner: Sequence[float] = ()
    at_start: bool = False
    at_end: bool = False
    stops: Sequence[float] = ()
    jumps: Sequence[float] = ()

    @property
    def all_jumps(self) -> tuple[float, ...]:
        """Those within the span at which the loads of one step differ from those of the next."""
        return (*self.inner, *self.jumps)


class Segment(NamedTuple):
    """Steps from one instant to the next; `after_jump`: whether they begin after a breakpoint, where loads may jump."""

    stepper: AbstractSegmentStepper
    after_jump: bool


class AbstractSegmentStepper(AbstractStepper):
    """Steps of a segment, as planned before a run. All segments of a run have steps of one kind.

    - `h`, `spacing`: the step as methods take it and the distance of its ends; None unless constant.
    - `first`, `last`: numbers of the step that begins at t0 and of the first one after t1; None unless constant.
    - `control`: the step size control; None where steps are constant.
    - `left_limit_offset`: how far before t1 the last step ends for the method, if `h` doesn't account for it.
    """

    h: eqx.AbstractVar[Any]
    spacing: eqx.AbstractVar[Any]
    first: eqx.AbstractVar[Any]
    last: eqx.AbstractVar[Any]
    control: eqx.AbstractVar[StepControl | None]
    left_limit_offset: eqx.AbstractVar[Any]

    @property
    @abc.abstractmethod
    def step_limit(self) -> int:
        """The number of steps at which the run ends at the latest: of attempted ones, where they are controlled."""

    @abc.abstractmethod
    def with_limit(self, max_steps: int) -> Self:
        """These steps with another limit of attempted steps."""

    @abc.abstractmethod
    def finer(self, method: AbstractIntegrator) -> Self:
        """Steps of half the length: constant ones, or those of accordingly smaller tolerances."""

    @abc.abstractmethod
    def until(self, t1: float, h: float | None, after: int, counted_from: int) -> Self | None:
        """The same grid until t1, if a step after number `after` ends there; otherwise None.

        It is also None where steps are much shorter than h, as the remainder of a short span is. Numbers of steps count
        from `counted_from`.
        """

    @abc.abstractmethod
    def pieces(self, begin: int) -> list[list[float]]:
        """Start, spacing and number of steps of each piece with equal steps, from step number `begin` on.

        There are none unless steps are constant.
        """

    @property
    @abc.abstractmethod
    def has_jumps(self) -> bool:
        """Whether loads may jump between steps of the segment."""

    @abc.abstractmethod
    def is_after_jump(self, p: Progress) -> Any:
        """Whether loads jump where the step from p begins; None unless the segment has jumps."""

    @abc.abstractmethod
    def ends_as_planned(self, p: Progress, t: Array) -> Any:
        """Whether a whole step from `p` to t ends at an instant that was known before the run."""

    @abc.abstractmethod
    def numbers(self) -> list[Any]:
        """Numbers from which `stored_segment` builds the same steps."""


def describe_segments(segments: Sequence[Segment]) -> dict[str, Any]:
    """The constant step h, and (t0, h, steps) of each segment if there are several."""
    metadata: dict[str, Any] = {"h": float(segments[0].stepper.spacing)}
    pieces = pieces_of(segments)
    return metadata | ({"legs": pieces} if len(pieces) > 1 else {})


def pieces_of(segments: Sequence[Segment]) -> list[list[float]]:
    """Start, spacing and number of steps of each piece of constant steps."""
    pieces, n = [], int(segments[0].stepper.first)
    for stepper, _ in segments:
        # A segment may count from the beginning of a grid of which the first steps are others.
        pieces += stepper.pieces(n)
        n = int(stepper.last)
    return pieces


def shift(start: float, end: float) -> float:
    """Distance from a breakpoint at which loads are evaluated, at either end of a segment."""
    return _SHORT * math.ulp(max(abs(start), abs(end)))
