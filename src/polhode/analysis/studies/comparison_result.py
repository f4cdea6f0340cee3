"""The result of a comparison of formulations and methods."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from polhode import summary
from polhode.analysis.studies.convergence import observed_order
from polhode.analysis.studies.lyapunov import Lyapunov

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure


class Case(NamedTuple):
    """One run: `value` is its step or rtol, `time` its seconds without compiling, `errors` by output."""

    formulation: str
    integrator: str
    value: float
    steps: int
    evaluations: int
    time: float
    errors: dict[str, float]


class SkippedCase(NamedTuple):
    """A case that was not run, or failed, and why."""

    formulation: str
    integrator: str | None
    reason: str

    def __str__(self) -> str:
        which = self.formulation if self.integrator is None else f"{self.integrator} in {self.formulation}"
        return f"{which}: {self.reason}"


@dataclasses.dataclass(frozen=True, eq=False, repr=False)
class Comparison:
    """Errors and times of formulations × methods × steps.

    - `cases`: all runs. - `refused`, `failed`: what could not be run, and what failed, with reasons.
    - `by`: "h" or "rtol", what `value` is. - `source`: where the reference comes from.
    - `doubt`: output → estimated error of the reference. - `floors`: output → size below which errors
      can't be distinguished from those of the reference and of round-off; they count for no order.
    - `lyapunov`: growth of small deviations along the motion, if it was estimated.
    """

    problem: str
    t1: float
    by: str
    cases: list[Case]
    refused: tuple[SkippedCase, ...]
    failed: tuple[SkippedCase, ...]
    source: str
    doubt: dict[str, float]
    floors: dict[str, float]
    lyapunov: Lyapunov | None

    @property
    def outputs(self) -> list[str]:
        return list(self.floors)

    def table(self) -> pandas.DataFrame:
        """A row for each run and output: formulation, integrator, h or rtol, steps, evaluations, time, output, error,
        and whether the error counts.
        """
        import pandas

        rows = [
            {
                "formulation": c.formulation,
                "integrator": c.integrator,
                self.by: c.value,
                "steps": c.steps,
                "evaluations": c.evaluations,
                "time": c.time,
                "output": output,
                "error": error,
                "counts": error > self.floors[output],
            }
            for c in self.cases
            for output, error in c.errors.items()
        ]
        return pandas.DataFrame(rows)

    @property
    def orders(self) -> dict[tuple[str, str, str], float]:
        """(formulation, integrator, output) → slope of the error over the step, or over rtol; NaN where fewer than two
        errors count.
        """
        return {
            (*key, output): observed_order(
                np.array([c.value for c in cases]), np.array([c.errors[output] for c in cases]), self.floors[output]
            )
            for key, cases in self._curves().items()
            for output in self.outputs
        }

    def plot(self, output: str | None = None) -> Figure:
        """Error against step or tolerance, and against time; hollow where errors don't count.

        Raises ValueError for unknown outputs.
        """
        from polhode.viewing import plots

        name = self.outputs[0] if output is None else output
        if name not in self.floors:
            raise ValueError(f"`{name}` was not compared; outputs are {', '.join(self.outputs)}.")
        curves = {
            self._label(key): np.array([(c.value, c.time, c.errors[name]) for c in cases]).T
            for key, cases in self._curves().items()
        }
        steps = "step h" if self.by == "h" else "rtol"
        return plots.work_and_precision(curves, self.floors[name], f"error of {name.replace('_', ' ')}", steps)

    def _curves(self) -> dict[tuple[str, str], list[Case]]:
        curves: dict[tuple[str, str], list[Case]] = {}
        for case in self.cases:
            curves.setdefault((case.formulation, case.integrator), []).append(case)
        return curves

    def _label(self, key: tuple[str, str]) -> str:
        several = len({form for form, _ in self._curves()}) > 1
        return f"{key[1]}, {key[0]}" if several else key[1]

    def _rows(self) -> list[tuple[str, ...]]:
        """Headings, and a row for each output and method: the least error, where it is, what it took, and the order."""
        orders, rows = self.orders, []
        for output in self.outputs:
            for (form, integrator), cases in self._curves().items():
                best = min(cases, key=lambda case: case.errors[output])
                error, order = best.errors[output], orders[form, integrator, output]
                within = error <= self.floors[output]
                numbers = (
                    f"< {self.floors[output]:.1e}" if within else f"{error:.1e}",
                    f"{best.value:.3g}",
                    f"{best.steps}",
                    f"{best.time:.2g} s",
                    "" if np.isnan(order) else f"{order:.1f}",
                )
                rows.append((output.replace("_", " "), integrator, form, *numbers))
        return [("output", "method", "in", "least error", f"at {self.by}", "steps", "time", "order"), *rows]

    def _remarks(self) -> list[str]:
        """Combinations that could not be run, and those that failed."""
        return [f"not run: {each}" for each in self.refused] + [f"failed: {each}" for each in self.failed]

    def __repr__(self) -> str:
        head, *rows = summary.lines(_blank_repeats(self._rows()), numbers=range(3, 8))
        title = f"Comparison of {self.problem} at t = {self.t1:g}, against {self.source}"
        return "\n".join([title, head, *rows, *self._remarks()])

    def _repr_html_(self) -> str:
        title = f"Comparison of {self.problem} at t = {self.t1:g}, against {self.source}"
        return summary.html_table(title, _blank_repeats(self._rows()), self._remarks())


def _blank_repeats(rows: list[tuple[str, ...]]) -> list[tuple[str, ...]]:
    """Rows with the first cell blank where it repeats the row above."""
    above = [None, *(row[0] for row in rows)]
    return [("" if row[0] == before else row[0], *row[1:]) for row, before in zip(rows, above, strict=False)]
