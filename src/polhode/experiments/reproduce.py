"""Runs experiments one after the other and writes one report."""

from __future__ import annotations

import dataclasses
import multiprocessing
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import TYPE_CHECKING, Any

from polhode import checks
from polhode.experiments import registry
from polhode.experiments.registry import Check, Experiment, Outcome

if TYPE_CHECKING:
    from polhode.experiments.report import Writer


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


def reproduce(
    experiment: str | Sequence[str],
    out: str | Path | None = None,
    *,
    quick: bool = False,
    small: bool = False,
    workers: int = 1,
    progress: bool = True,
) -> Report:
    """Runs experiments by name and reports which claims hold.

    **Arguments:**

    - `experiment`: a name such as "002-3", or several; `polhode.experiments.names()` lists them.
    - `out`: folder for `index.html` (complete in itself), `checks.json`, and `figures` and `data` by experiment. They
      are written after each experiment, so that an interrupted run leaves what was found.
    - `quick`: fewer steps and shorter spans, with the claims that these can show.
    - `small`: a page of some megabytes to keep or to send: figures of few pixels, no `figures` and no `data`.
    - `workers`: processes among which experiments are shared, those of one module together. With more than one,
      call it where Python's `multiprocessing` may start processes: below `if __name__ == "__main__":` in a script.
    - `progress`: one line an experiment on standard error.

    **Returns** a `Report`, in the order of the names. An experiment that raises is reported as failed and the others
    go on.

    **Raises** ValueError for unknown names, before anything runs.
    """
    names = [experiment] if isinstance(experiment, str) else checks.as_list("experiment", experiment, "of names")
    experiments = [registry.get(name) for name in names]
    if not experiments:
        raise ValueError("Name at least one experiment; `polhode.experiments.names()` lists them.")
    workers = checks.count("workers", workers, "processes", most=1024)
    writer = None if out is None else _writer(Path(out), [item.name for item in experiments], quick, small)
    entries: dict[str, Entry] = {}
    for entry in _entries(experiments, quick, workers, progress):
        entries[entry.experiment.name] = entry
        passed = sum(check.passed for check in entry.outcome.checks)
        _say(
            progress,
            f"[{len(entries)}/{len(experiments)}] {entry.experiment.name}  {entry.experiment.title}\n"
            f"    {passed} of {len(entry.outcome.checks)} checks passed in {entry.wall_time_s:.1f} s",
        )
        if writer is not None:
            writer.add(entry.experiment, entry.outcome, entry.wall_time_s, entry.error)
    return Report(tuple(entries[item.name] for item in experiments), writer.path if writer else None)


def _writer(out: Path, names: Sequence[str], quick: bool, small: bool) -> Writer:
    # Brings matplotlib, which importing polhode need not pay for.
    from polhode.experiments.report import Writer

    return Writer(out, names, quick, small)


def _entries(experiments: Sequence[Experiment], quick: bool, workers: int, progress: bool) -> Iterator[Entry]:
    """Entries in the order in which they are finished."""
    groups: dict[str, list[Experiment]] = {}
    for item in experiments:
        groups.setdefault(item.run.__module__, []).append(item)
    if workers == 1 or len(groups) == 1:
        for item in experiments:
            _say(progress, f"{item.name} …")
            yield _run(item, quick)
        return
    # Experiments of a module share runs.
    with ProcessPoolExecutor(min(workers, len(groups)), mp_context=multiprocessing.get_context("spawn")) as pool:
        tasks = {pool.submit(_run_all, [item.name for item in group], quick): group for group in groups.values()}
        try:
            for task in as_completed(tasks):
                yield from _collect(task, tasks[task])
        except BaseException:
            pool.shutdown(wait=False, cancel_futures=True)
            raise


def _collect(task: Future[list[tuple[Outcome, float, str]]], group: Sequence[Experiment]) -> list[Entry]:
    try:
        return [Entry(item, *rest) for item, rest in zip(group, task.result(), strict=True)]
    except BrokenProcessPool as error:
        why = f"a process of `workers` ended before it, perhaps for want of memory; take fewer. {error}"
        failure = Check("the experiment runs to its end", "yes", why, False)
        return [Entry(item, Outcome([failure]), 0.0, why) for item in group]


def _run_all(names: Sequence[str], quick: bool) -> list[tuple[Outcome, float, str]]:
    """Experiments one after the other, in a process of their own."""
    entries = [_run(registry.get(name), quick) for name in names]
    return [(entry.outcome, entry.wall_time_s, entry.error) for entry in entries]


def _run(item: Experiment, quick: bool) -> Entry:
    began = time.perf_counter()
    try:
        outcome = item.quick() if quick and item.quick is not None else item.run()
        if not outcome.checks:
            raise ValueError(f"Experiment `{item.name}` returned no checks, so it shows nothing.")
        return Entry(item, outcome, time.perf_counter() - began)
    except Exception as error:  # one experiment's failure, of whatever kind, must not cost the others' results
        failure = Check("the experiment runs to its end", "yes", f"{type(error).__name__}: {error}", False)
        return Entry(item, Outcome([failure]), time.perf_counter() - began, traceback.format_exc())


def _say(enabled: bool, text: str) -> None:
    if enabled:
        print(text, file=sys.stderr, flush=True)
