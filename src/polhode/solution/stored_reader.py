"""The reader of quantities that a stored run did not save, with the problem rebuilt from its description."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from polhode import checks, integrators
from polhode.integrators.compatibility import convert_for
from polhode.integrators.serialisation import deserialise
from polhode.problem import Problem
from polhode.problems.rebuild import can_rebuild, rebuild
from polhode.results.derived_quantities import Reader, RunContext


def reader_of_stored(meta: Mapping[str, Any], stats: Mapping[str, Any], problem: Problem | None) -> Reader | None:
    """The reader of a stored run, for the given problem or one that is rebuilt from the description; None without.

    Raises ValueError for a problem with other bodies or joints.
    """
    if "names" not in meta:
        return None
    if problem is not None:
        _check_same(problem, meta["names"])
    elif not can_rebuild(meta):
        return None
    return Reader(lambda: _stored_context(meta, stats, problem or rebuild(meta)))


def _check_same(problem: Problem, names: Mapping[str, Any]) -> None:
    if not isinstance(problem, Problem):
        raise checks.not_a_problem(problem, "a Problem")
    names_of_problem = problem.named.metadata if problem.named else {"bodies": [], "joints": {}}
    if list(names_of_problem["bodies"]) != list(names["bodies"]) or list(names_of_problem["joints"]) != list(
        names["joints"]
    ):
        raise ValueError(
            f"`problem` is not the one of this run, which has the bodies {', '.join(names['bodies'])} and the joints "
            f"{', '.join(names['joints']) or 'none'}; it has {', '.join(names_of_problem['bodies']) or 'none'} and "
            f"{', '.join(names_of_problem['joints']) or 'none'}."
        )


def _has_events(meta: Mapping[str, Any], stats: Mapping[str, Any]) -> bool:
    """Whether a run has events besides those of contacts, which are a part of the motion."""
    numbers, events = stats.get("events", {}).get("number", ()), meta.get("events", ())
    return any(not events[int(number)].get("of_contacts", False) for number in numbers)


def _stored_context(meta: Mapping[str, Any], stats: Mapping[str, Any], problem: Problem | None) -> RunContext:
    if problem is None or problem.named is None:
        raise ValueError(f"The problem `{meta.get('problem')}` can't be made anew.")
    if meta.get("changed_by_events") or _has_events(meta, stats):
        raise ValueError("Events of this run may have changed its system, so only what was saved is known of it.")
    method = deserialise(meta["method"]) if meta.get("method") else integrators.get(meta["integrator"]["name"])
    converted_system = convert_for(problem.system, method, meta["t0"], problem.state0, check_state=False)
    return RunContext(problem.named, problem.system, converted_system.converted)
