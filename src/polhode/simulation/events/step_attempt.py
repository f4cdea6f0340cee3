"""An attempt at a step in a run with events."""

from __future__ import annotations

from typing import NamedTuple

from jaxtyping import Array

from polhode.simulation.events.event_functions import Motion, StepEnd
from polhode.simulation.events.sampling import Crossing
from polhode.simulation.stepping.stepper import Progress


class StepAttempt(NamedTuple):
    """An attempt from `p` to `new`, whether it is `accepted`, or a `partial` step, and what the functions do in it."""

    p: Progress
    new: Progress
    accepted: Array
    partial: Array
    end: StepEnd
    motion: Motion
    crossing: Crossing
