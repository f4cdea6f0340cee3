"""Error messages for failed load steps."""

from __future__ import annotations

from typing import NamedTuple

import jax
import numpy as np

from polhode.analysis.statics import _diagnosis
from polhode.analysis.statics._branches import slope
from polhode.analysis.statics._equations import Load
from polhode.analysis.statics._newton import Equations, Programs, StepProgress, no_excess
from polhode.linalg.solver_choice import host_solver
from polhode.spaces.base import Point
from polhode.systems.mechanical import Multipliers

_STEEPER = 4.0
"""Growth of the slope of a path over a load step that speaks of a limit point."""


class Failure(NamedTuple):
    """A load step that failed.

    - `start`: the equilibrium before it; `loads`: at its ends; `place`: number and count of steps, in words.
    - `follow`: whether it had to stay on its branch.
    """

    programs: Programs
    start: tuple[Point, Multipliers]
    progress: StepProgress
    loads: tuple[Load, Load]
    place: str
    follow: bool


def explain(failure: Failure) -> str:
    """The reason of a failure, and a remedy."""
    programs, before, progress, (start, end), place, follow = failure
    system = programs.balance.system
    load = Load(*(a + progress.fraction * (b - a) for a, b in zip(start, end, strict=True)))
    load_grows = float(start.held_share) != float(end.held_share)
    where = f"{100 * (1 - float(load.held_share)):.4g} % of the load" if load_grows else f"t = {float(load.t):.6g}"
    message = f"Newton's method found no equilibrium beyond {where} (step {place}, halved ten times)"
    if follow and (progress.elsewhere or _turns_back(programs, before, progress, (start, end), load)):
        beyond = "what Newton's method finds beyond it lies on another branch" if progress.elsewhere else "none follows"
        return (
            f"The path of equilibria ends at {where} (step {place}, halved ten times): {beyond}. There the "
            "load has a limit point, as before an arch snaps through, or joints can't follow their drive any further. "
            "`polhode.simulate` shows where bodies go from there; drive them (`joints.PrescribedTranslation`) to "
            "follow a path around a limit point."
        )
    if progress.elsewhere:
        return (
            f"{message}: what it finds keeps joints half a turn off. Start closer, or give `times` from a start that "
            "fits, so that drives are followed."
        )
    loose = _diagnosis.describe_loose_motion(
        system, equations_at(programs, load, progress.q, progress.multipliers).tangent, progress.q
    )
    if loose:
        return f"{message}: there {loose}"
    residuals = equations_at(programs, end, progress.q, progress.multipliers)
    if not np.isfinite(np.asarray(residuals.r)).all():
        return (
            f"{message}: forces are not finite at the end of the step. Constraints may contradict each other near the "
            "start, as those of a straight rod without extension between fixed points do; start with slack."
        )
    rest = _diagnosis.describe_imbalance(system, np.asarray(residuals.r), np.asarray(residuals.gap))
    has_stresses = bool(jax.tree.leaves(no_excess(programs.balance, load, progress.q)))
    return f"{message}. At the end of the step there remain {rest}. {_remedy(load_grows, has_stresses)}"


def _turns_back(
    programs: Programs, began: tuple[Point, Multipliers], progress: StepProgress, loads: tuple[Load, Load], load: Load
) -> bool:
    """Whether the path has become much steeper where it ended than it was where the step began."""
    whole = jax.tree.map(lambda a, b: b - a, *loads)
    solver = host_solver(programs.balance.system.n, programs.balance.system.m)
    places = ((loads[0], began), (load, (progress.q, progress.multipliers)))
    slopes = [slope(solver, programs.sensitivity(at, whole, *place))[1] for at, place in places]
    slope_before, slope_after = (float(np.max(np.abs(x), initial=0.0)) for x in slopes)
    return not slope_after <= _STEEPER * slope_before


def _remedy(load_grows: bool, has_stresses: bool) -> str:
    """A hint; `has_stresses`: whether there are elements such as edges of rods, which have a shape without stress."""
    shape = (
        "start from another shape (`rods.catenary` for a cable), exclude strains that hardly occur "
        '(`constrained="both"` for a cable that hardly stretches; its equilibrium is a start for the elastic cable), '
    )
    more = "Give more `steps`" if load_grows else "Give more `times`"
    return f"{more}, start closer to the equilibrium, {shape * has_stresses}or check whether the loads have one at all."


def equations_at(programs: Programs, load: Load, q: Point, multipliers: Multipliers) -> Equations:
    return programs.equations(load, q, multipliers, no_excess(programs.balance, load, q))
