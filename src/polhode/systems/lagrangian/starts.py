"""Checks of starts against constraints and of momenta against velocities."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from polhode.jax_context import warn

START_TOLERANCE = 1e-6
"""Largest |g| of a given start, relative to the larger of 1 and the largest coordinate."""


COARSE_TOLERANCE = 0.1
"""Largest relative gap of velocities or momenta at the end of a step from which a run may go on."""


class StartWarning(UserWarning):
    """A start with inconsistent velocities or momenta, as ends of energy–momentum steps may have, one that differs from
    the given values, or one outside the ranges of joints.
    """


class Gaps(NamedTuple):
    """Values of constraints that should vanish at a start.

    - `what`: name in messages; `values`: (m,). - `at`: the coordinates or velocities, to whose size gaps are relative.
      - `remedy`: end of the message. - `tolerance`: above it the start is an error, below it a warning.
    """

    what: str
    values: Any
    at: Any
    remedy: str
    tolerance: float = START_TOLERANCE


def check_gaps(*all_gaps: Gaps) -> None:
    """Raises ValueError for violated constraints, all at once; warns between `START_TOLERANCE` and their tolerance."""
    errors: dict[str, str] = {}
    for gaps in all_gaps:
        values, largest = np.abs(np.asarray(gaps.values)), max(1.0, float(np.max(np.abs(gaps.at), initial=0.0)))
        worst = int(np.argmax(np.where(np.isfinite(values), values, np.inf)))
        if values[worst] <= START_TOLERANCE * largest:
            continue
        violation = f"on {gaps.what}: number {worst} of {len(values)} by {values[worst]:.3g}"
        if not values[worst] <= gaps.tolerance * largest:
            errors[violation] = gaps.remedy
        else:
            warn(
                f"`state0` violates the constraints {violation}. That is expected when a run goes on from the end of "
                "an `eml` step.",
                StartWarning,
            )
    if errors:
        remedies = " ".join(dict.fromkeys(errors.values()))
        raise ValueError(f"`state0` violates the constraints {', and those '.join(errors)}. {remedies}")


def check_momenta(momenta: Any, reference: Any) -> None:
    """Raises ValueError for p far from ∂L/∂v, and warns below `COARSE_TOLERANCE`."""
    gap = float(np.max(np.abs(np.asarray(momenta) - np.asarray(reference)), initial=0.0))
    largest = max(1.0, float(np.max(np.abs(np.asarray(reference)), initial=0.0)))
    if gap <= START_TOLERANCE * largest:
        return
    message = f"`state0` has momenta that differ from ∂L/∂v by {gap:.3g}, where the largest is {largest:.3g}."
    if not gap <= COARSE_TOLERANCE * largest:
        raise ValueError(f"{message} `system.start(q, v)` makes a state with consistent ones.")
    warn(f"{message} That is expected when a run goes on from the end of an `eml` step.", StartWarning)
