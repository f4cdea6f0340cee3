"""A run as a sequence of legs: from one breakpoint to the next, each with steps of its own."""

from __future__ import annotations

import abc
import math
from collections.abc import Sequence
from typing import Any, NamedTuple, Self

import equinox as eqx

from polhode.integrators.base import AbstractIntegrator
from polhode.simulation.stepping.step_control import StepControl
from polhode.simulation.stepping.stepper import AbstractStepper

_SHORT = 2
"""Units of round-off by which steps end before a breakpoint, or begin behind it, for loads: two, so that the sum of
start and length of a step rounds to the same side. Whatever a load is at the breakpoint itself then doesn't matter."""


class Breakpoints(NamedTuple):
    """Instants at which loads may jump: those within a span, and whether its ends are such."""

    inner: Sequence[float] = ()
    at_start: bool = False
    at_end: bool = False


class Segment(NamedTuple):
    """Steps from one instant to the next; `fresh`: whether it begins behind a breakpoint, where loads may jump."""

    stepper: AbstractSegmentStepper
    after_jump: bool


class AbstractSegmentStepper(AbstractStepper):
    """Steps of a leg, as they are planned before a run. All legs of a run have steps of one kind.

    - `h`, `spacing`: the step as methods take it and the distance of its ends, where it is constant, otherwise None.
    - `first`, `last`: numbers of the step that begins at t0 and of the first one that is not taken any more, where they
      are known beforehand, otherwise None.
    - `control`: how steps are chosen; None where they are constant.
    - `short`: what the last step lacks to t1 for the method, if that was not taken off all steps.
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
        """The number of steps, of attempted ones where they are chosen, at which the run ends at the latest."""

    @abc.abstractmethod
    def with_limit(self, max_steps: int) -> Self:
        """The same with another limit of attempted steps."""

    @abc.abstractmethod
    def finer(self, method: AbstractIntegrator) -> Self:
        """Steps of half the length: constant ones, or such as tolerances give that are smaller by as much."""

    @abc.abstractmethod
    def until(self, t1: float, h: float | None, after: int, counted_from: int) -> Self | None:
        """The same grid until t1, if a step behind the number `behind` ends there; otherwise None.

        Nor is there one where steps are much shorter than h, as those are that a short span has left. Numbers of steps
        count from `counted_from`.
        """

    @abc.abstractmethod
    def extend(self, t1: float, breakpoints: Breakpoints, h: float | None) -> list[Segment]:
        """Legs from the end of this one to t1, with the constant step h that was asked for, or None for the same."""

    @abc.abstractmethod
    def numbers(self) -> list[Any]:
        """Numbers of which `of_numbers` makes the same steps."""


def describe(segments: Sequence[Segment]) -> dict[str, Any]:
    """The constant step h, and (t0, h, steps) of each leg if there are several."""
    steppers = [segment.stepper for segment in segments]
    metadata: dict[str, Any] = {"h": float(steppers[0].spacing)}
    if len(steppers) > 1:
        metadata["legs"] = [[float(s.t0), float(s.spacing), int(s.last) - int(s.first)] for s in steppers]
    return metadata


def shift(start: float, end: float) -> float:
    """By how much loads are read off a breakpoint at either end of a leg."""
    return _SHORT * math.ulp(max(abs(start), abs(end)))
