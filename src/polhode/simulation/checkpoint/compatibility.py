"""In what a stored run and one that is to go on with it differ, as far as both can tell."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from polhode import __version__
from polhode.checks import shown
from polhode.integrators.serialisation import serialise
from polhode.json_values import from_plain, to_plain
from polhode.simulation.task import Task


def differences(meta: Mapping[str, Any], task: Task) -> str:
    """Problem, parameters, options of the method and versions that differ from those that a run tells; "" for none."""
    now = from_plain(to_plain({**task.known(), "method": serialise(task.integrator), "version": __version__}))
    found = []
    if meta.get("problem") != now["problem"]:
        found.append(_said("the problem", meta.get("problem"), now["problem"]))
    else:
        found += _of_each(meta.get("parameters", {}), now["parameters"])
    found += _of_methods(meta.get("method"), now["method"])
    if meta.get("version") != now["version"]:
        found.append(_said("the version of polhode", meta.get("version"), now["version"]))
    return ", ".join(found)


def _of_methods(there: Any, here: Any) -> Iterator[str]:
    if there is None or here is None:
        return
    if there["class"] != here["class"]:
        yield _said("the method", *(each["class"].partition(":")[2] for each in (there, here)))
    else:
        yield from _of_each(there["fields"], here["fields"])


def _of_each(there: Mapping[str, Any], here: Mapping[str, Any]) -> Iterator[str]:
    for name in {**there, **here}:
        if name not in there or name not in here or there[name] != here[name]:
            yield _said(f"`{name}`", there.get(name), here.get(name))


def _said(what: str, there: Any, here: Any) -> str:
    return f"{what} is {shown(there)} there and {shown(here)} here"
