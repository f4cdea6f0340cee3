"""The list of experiments, and what an experiment returns."""

from __future__ import annotations

import dataclasses
import importlib
import pkgutil
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from polhode import checks

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclasses.dataclass(frozen=True)
class Check:
    """One claim held against a measurement.

    - `name`: what is looked at.
    - `claimed`, `measured`: numbers, or words and numbers.
    - `passed`: whether the measurement supports the check as it is worded.
    - `explanation`: needed where a paper's claim does not hold as worded: the check then states what does hold, and
      this says how it differs from the paper and why.
    """

    name: str
    claimed: Any
    measured: Any
    passed: bool
    explanation: str = ""

    def __post_init__(self) -> None:
        # Comparisons of arrays give NumPy booleans, which JSON doesn't take.
        object.__setattr__(self, "passed", bool(self.passed))


@dataclasses.dataclass(frozen=True, eq=False)
class Outcome:
    """The findings of an experiment.

    - `checks`: at least one.
    - `figures`: name → matplotlib figure.
    - `data`: name → columns or arrays by name; kept next to the report as csv if all are 1-D and equally long,
      otherwise as npz.
    """

    checks: list[Check]
    figures: Mapping[str, Figure] = dataclasses.field(default_factory=dict)
    data: Mapping[str, Mapping[str, Any]] = dataclasses.field(default_factory=dict)


@dataclasses.dataclass(frozen=True)
class Experiment:
    """A registered experiment; `run()` does it.

    `quick` is a short version: fewer steps and shorter spans, and the claims that these can show. None: it is short.
    """

    name: str
    paper: str
    title: str
    run: Callable[[], Outcome]
    quick: Callable[[], Outcome] | None = None

    @property
    def doc(self) -> str:
        """The experiment in words, and where it is in the paper."""
        return (self.run.__doc__ or "").strip()


_EXPERIMENTS: dict[str, Experiment] = {}


def experiment(
    name: str, *, paper: str, title: str, quick: Callable[[], Outcome] | None = None
) -> Callable[[Callable[[], Outcome]], Callable[[], Outcome]]:
    """Decorator that lists a function () → `Outcome` as the experiment `name`, such as "002-3". `quick` is short."""

    def add(run: Callable[[], Outcome]) -> Callable[[], Outcome]:
        if name in _EXPERIMENTS and _EXPERIMENTS[name].run is not run:
            raise ValueError(f"There are two experiments `{name}`; give one of them another name.")
        _EXPERIMENTS[name] = Experiment(name, paper, title, run, quick)
        return run

    return add


def names(paper: str | None = None) -> list[str]:
    """All experiment names, or those of one paper."""
    result = sorted((name for name, e in _experiments().items() if paper is None or e.paper == paper), key=_in_order)
    if not result and paper is not None:
        papers = sorted({e.paper for e in _EXPERIMENTS.values()})
        raise ValueError(f"There are no experiments of paper `{paper}`. Papers: {', '.join(papers) or 'none'}.")
    return result


def get(name: str) -> Experiment:
    """The experiment called `name`. Raises ValueError for unknown names, with the nearest known one."""
    experiments = _experiments()
    if checks.word("experiment", name, "name of an experiment") not in experiments:
        text = ", ".join(sorted(experiments, key=_in_order)) or "none"
        raise ValueError(f"There is no experiment `{name}`.{checks.nearest(name, experiments)} Known: {text}.")
    return experiments[name]


def _in_order(name: str) -> list[tuple[int, str]]:
    """Sorts "002-10" after "002-9"."""
    return [(int(part), "") if part.isdigit() else (-1, part) for part in re.split(r"(\d+)", name)]


def _experiments() -> dict[str, Experiment]:
    # Modules register on import. They are imported on demand: they bring matplotlib, which plain runs don't need.
    from polhode.experiments import papers as experiments

    for module in pkgutil.iter_modules(experiments.__path__):
        importlib.import_module(f"{experiments.__name__}.{module.name}")
    return _EXPERIMENTS
