"""Validation of descriptions read from stores, which may contain anything, against the types that runs write."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode.checks import short_repr

NUMBER, WHOLE, WORD, FLAG = "a number", "a whole number", "a word", "true or false"
"""Types of values. `[x]` is a list of x, `{"": x}` maps words to x, other dicts have these entries if at all."""

_ANY: dict[str, Any] = {"": None}

_JOINT = {
    "kind": WORD,
    "bodies": [WORD],
    "coordinates": {"": WHOLE},
    "angles": [WORD],
    "load": WHOLE,
    "point": [NUMBER],
}
_FORCE = {
    "kind": WORD,
    "bodies": {"": WHOLE},
    "efforts": {"": WHOLE},
    "angles": [WORD],
    "number": WHOLE,
    "measures": {"": WHOLE},
    "measured_angle": FLAG,
}

_SOLID = {
    "name": WORD,
    "row": WHOLE,
    "colour": WORD,
    "shape": WORD,
    "size": [NUMBER],
    "at": [NUMBER],
    "turn": [[NUMBER]],
}
_SCENE = {
    "up": [NUMBER],
    "bodies": [_SOLID],
    "symbols": [_SOLID],
    "lines": [{"rows": [WHOLE], "points": [[NUMBER]], "colour": WORD}],
    "clouds": [{"rows": [WHOLE], "diameters": [NUMBER], "colour": WORD, "output": WORD}],
    "trails": [WHOLE],
    "arrows": {"rows": [WHOLE], "masses": [NUMBER], "inertias": [[[NUMBER]]], "gravity": [NUMBER]},
}

META: dict[str, Any] = {
    "problem": WORD,
    "origin": WORD,
    "version": WORD,
    "written_as": WORD,
    "parameters": _ANY,
    "choice": {"": WORD},
    "asked": _ANY,
    "order": NUMBER,
    "t0": NUMBER,
    "t1": NUMBER,
    "h": NUMBER,
    "rtol": NUMBER,
    "atol": NUMBER,
    "newton_tolerance": NUMBER,
    "legs": [[NUMBER]],
    "kinks_within_steps": WHOLE,
    "between_steps": FLAG,
    "promises_at_steps": FLAG,
    "promises": {"": WORD},
    "scales": _ANY,
    "dimensions": {"": [WORD]},
    "events": [{"name": WORD, "direction": WHOLE, "terminal": FLAG}],
    "names": {"bodies": [WORD], "joints": {"": _JOINT}, "forces": {"": _FORCE}},
    "scene": _SCENE,
}
"""Entries of the description of a run; all are optional."""

STATS: dict[str, Any] = {
    "steps": WHOLE,
    "rejected": WHOLE,
    "evaluations": NUMBER,
    "newton_iterations": NUMBER,
    "t_reached": NUMBER,
    "problem_time_s": NUMBER,
    "build_time_s": NUMBER,
    "compile_time_s": NUMBER,
    "wall_time_s": NUMBER,
    "compiled": _ANY,
    "events": {"t": [NUMBER], "number": [WHOLE], "jumps": {"": None}},
    "error_estimate": _ANY,
}
"""Entries of the statistics of a run; all are optional."""


def check_description(meta: Any, stats: Any, states: Sequence[tuple[int, ...]]) -> None:
    """Raises ValueError unless the description and the statistics of a run have the types that runs write.

    `states`: shapes of the leaves of a state.
    """
    check(meta, META, "meta")
    check(stats, STATS, "stats")
    if empty := [name for name, kind in STATS.items() if kind == WHOLE and stats.get(name, 0) is None]:
        raise ValueError(f"`stats.{empty[0]}` is empty")
    integrator = meta.get("integrator")
    if not isinstance(integrator, str | None):
        check(integrator, {"name": WORD, "class": WORD, "options": _ANY}, "meta.integrator")
        if integrator.get("name") is None:
            raise ValueError("`meta.integrator` has no name")
    if meta.get("between_steps") and any(meta.get(name) is None for name in ("t0", "t1")):
        raise ValueError("`meta` has no times")
    if any(len(leg) != 3 for leg in meta.get("legs") or ()):
        raise ValueError("`meta.legs` are not of three numbers")
    scene = meta.get("scene") or {}
    if any(solid.get("shape") is None for kind in ("bodies", "symbols") for solid in scene.get(kind) or ()):
        raise ValueError("a body of `meta.scene` has no shape")
    _check_names(meta.get("names"))
    _check_events(meta.get("events") or [], stats.get("events"), states)


def _check_names(names: Any) -> None:
    """Raises ValueError unless the numbers of joints and forces count up from zero."""
    if names is None:
        return
    joints, forces = _require(names, "bodies", "joints")[1], names.get("forces") or {}
    joint_entries = [_require(joint, "kind", "bodies", "coordinates", "angles") for joint in joints.values()]
    loads = [joint["load"] for joint in joints.values() if joint.get("load") is not None]
    if any("load" not in joint for joint in joints.values()):
        raise ValueError("a joint of `meta.names` lacks its number")
    # Joints between the same two bodies, as files stack them, have their loads together.
    groups = [[k for each in joint_entries for k in each[2].values()], [*set(loads)]]
    force_entries = [_require(force, "bodies", "efforts", "number") for force in forces.values()]
    groups += [[k for each in force_entries for k in each[place].values()] for place in (0, 1)]
    groups += [[each[2] for each in force_entries]]
    groups += [[k for force in forces.values() for k in (force.get("measures") or {}).values()]]
    if any(sorted(group) != list(range(len(group))) for group in groups):
        raise ValueError("`meta.names` has numbers that don't count joints and forces")


def _require(entries: dict[str, Any], *names: str) -> list[Any]:
    """Values of some entries. Raises ValueError where one is missing."""
    if absent := [name for name in names if entries.get(name) is None]:
        raise ValueError(f"`meta.names` lacks `{absent[0]}`")
    return [entries[name] for name in names]


def _check_events(events: list[Any], table: Any, shapes: Sequence[tuple[int, ...]]) -> None:
    """Raises ValueError unless a table of events fits the declared events of the run."""
    if any(event.get("name") is None for event in events):
        raise ValueError("an event has no name")
    if table is None:
        return
    count = len(table.get("t") or ())
    numbers = table.get("number")
    if numbers is None or len(numbers) != count or not all(0 <= k < len(events) for k in numbers):
        raise ValueError("`stats.events` are not those of the run")
    for side in ("before", "after"):
        states = table.get(side)
        try:
            found_shapes = [np.asarray(leaf, float).shape for leaf in states]
        except (TypeError, ValueError):
            raise ValueError(f"`stats.events.{side}` has other things than states") from None
        if [math.prod(shape) for shape in found_shapes] != [count * math.prod(shape) for shape in shapes]:
            raise ValueError(f"`stats.events.{side}` has not a state for each event")


def check(value: Any, types: Any, name: str) -> None:
    """Raises ValueError for a value of another type; None passes."""
    if value is None:
        return
    match types:
        case None:
            return
        case str():
            if not _is(value, types):
                raise ValueError(f"`{name}` is {short_repr(value)}, which is not {types}")
        case [inner]:
            if not isinstance(value, list):
                raise ValueError(f"`{name}` is {short_repr(value)}, which is no list")
            for each in value:
                if each is None and inner is not None:
                    raise ValueError(f"`{name}` has an empty entry")
                check(each, inner, name)
        case dict():
            _check_entries(value, types, name)


def _check_entries(value: Any, types: dict[str, Any], name: str) -> None:
    if not isinstance(value, dict):
        raise ValueError(f"`{name}` is {short_repr(value)}, which has no entries")
    for key, each in value.items():
        if key in types:
            check(each, types[key], f"{name}.{key}")
        elif "" in types:
            if each is None and types[""] is not None:
                raise ValueError(f"`{name}.{key}` is empty")
            check(each, types[""], f"{name}.{key}")


def _is(value: Any, kind: str) -> bool:
    match kind:
        case "a word":
            return isinstance(value, str)
        case "true or false":
            return isinstance(value, bool)
        case "a whole number":
            return type(value) is int and abs(value) < 2**62
        case _:
            return type(value) is float or (type(value) is int and abs(value) < 2**62)
