"""Differences between a stored run and the task that is to resume it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from polhode import __version__
from polhode.checks import short_repr
from polhode.integrators.serialisation import serialise
from polhode.json_values import from_plain, to_plain
from polhode.simulation.task import Task


def differences(meta: Mapping[str, Any], task: Task) -> str:
    """Problem, parameters, options of the method and version that differ from the metadata of a run; "" for none."""
    now = from_plain(
        to_plain({**task.problem_metadata(), "method": serialise(task.integrator), "version": __version__})
    )
    texts = []
    if meta.get("problem") != now["problem"]:
        texts.append(_describe_difference("the problem", meta.get("problem"), now["problem"]))
    else:
        texts += _field_differences(meta.get("parameters", {}), now["parameters"])
    texts += _method_differences(meta.get("method"), now["method"])
    if meta.get("version") != now["version"]:
        texts.append(_describe_difference("the version of polhode", meta.get("version"), now["version"]))
    return ", ".join(texts)


def _method_differences(there: Any, here: Any) -> Iterator[str]:
    if there is None or here is None:
        return
    if there["class"] != here["class"]:
        yield _describe_difference("the method", *(each["class"].partition(":")[2] for each in (there, here)))
    else:
        yield from _field_differences(there["fields"], here["fields"])


def _field_differences(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for name in {**there, **here}:
        if name not in there or name not in here or there[name] != here[name]:
            yield _describe_difference(f"`{name}`", there.get(name), here.get(name))


def _describe_difference(name: str, there: Any, here: Any) -> str:
    return f"{name} is {short_repr(there)} there and {short_repr(here)} here"
