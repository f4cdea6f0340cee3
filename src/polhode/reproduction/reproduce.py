"""Running experiments, one after the other, into one report."""

from __future__ import annotations

import dataclasses
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polhode import checks
from polhode.reproduction import registry
from polhode.reproduction.registry import Check, Experiment, Outcome

if TYPE_CHECKING:
    from polhode.reproduction.writing import Writer


@dataclasses.dataclass(frozen=True, eq=False)
class Entry:
    """One experiment of a report.

    `error` is the traceback of an experiment that failed with an exception; its only check says so.
    """

    experiment: Experiment
    outcome: Outcome
    wall_time_s: float
    error: str = ""

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return all(check.passed for check in self.outcome.checks)


@dataclasses.dataclass(frozen=True, eq=False)
class Report:
    """Reports of experiments; `path` is the HTML report, if it was written."""

    entries: tuple[Entry, ...]
    path: Path | None = None

    @property
    def checks(self) -> list[dict[str, Any]]:
        """All checks as dicts: experiment, name, claimed, measured, passed, explanation."""
        return [
            {"experiment": entry.experiment.name, **dataclasses.asdict(check)}
            for entry in self.entries
            for check in entry.outcome.checks
        ]

    @property
    def passed(self) -> bool:
        """Whether all checks passed."""
        return all(entry.passed for entry in self.entries)


def reproduce(experiment: str | Sequence[str], out: str | Path | None = None, *, progress: bool = True) -> Report:
    """Runs experiments by name and reports which claims hold.

    **Arguments:**

    - `experiment`: a name such as "002-3", or several; `polhode.reproduction.names()` lists them.
    - `out`: folder for `index.html` (complete in itself), `checks.json`, and `figures` and `data` by experiment. They
      are written after each experiment, so that an interrupted run leaves what was found.
    - `progress`: one line an experiment on standard error.

    **Returns** a `Report`. An experiment that raises is reported as failed and the others go on.

    **Raises** ValueError for unknown names, before anything runs.
    """
    wanted = [experiment] if isinstance(experiment, str) else checks.listed("experiment", experiment, "of names")
    chosen = [registry.get(name) for name in wanted]
    if not chosen:
        raise ValueError("Name at least one experiment; `polhode.reproduction.names()` lists them.")
    writer = None if out is None else _writer(Path(out))
    entries: list[Entry] = []
    for i, item in enumerate(chosen):
        _say(progress, f"[{i + 1}/{len(chosen)}] {item.name}  {item.title} …")
        entry = _run(item)
        entries.append(entry)
        if writer is not None:
            writer.add(item, entry.outcome, entry.wall_time_s, entry.error)
        passed = sum(check.passed for check in entry.outcome.checks)
        _say(progress, f"    {passed} of {len(entry.outcome.checks)} checks passed in {entry.wall_time_s:.1f} s")
    return Report(tuple(entries), writer.path if writer else None)


def _writer(out: Path) -> Writer:
    # Brings matplotlib, which importing polhode need not pay for.
    from polhode.reproduction.writing import Writer

    return Writer(out)


def _run(item: Experiment) -> Entry:
    began = time.perf_counter()
    try:
        outcome = item.run()
        if not outcome.checks:
            raise ValueError(f"Experiment `{item.name}` returned no checks, so it shows nothing.")
        return Entry(item, outcome, time.perf_counter() - began)
    except Exception as error:  # one experiment's failure, of whatever kind, must not cost the others' results
        failed = Check("the experiment runs to its end", "yes", f"{type(error).__name__}: {error}", False)
        return Entry(item, Outcome([failed]), time.perf_counter() - began, traceback.format_exc())


def _say(wanted: bool, text: str) -> None:
    if wanted:
        print(text, file=sys.stderr, flush=True)
