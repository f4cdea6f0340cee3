"""Metadata of a run, in plain values: all that a solution and its store say about how it was made."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable
from typing import Any

import jax
import numpy as np
from jax.core import Tracer

from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.serialisation import serialise
from polhode.problem import NO_CHOICE, Problem
from polhode.results import declarations
from polhode.simulation.task import Task


def describe(task: Task, step_metadata: dict[str, Any], between_steps: bool) -> dict[str, Any]:
    """Metadata of the run of a task; `between_steps`: whether frames lie between the ends of steps."""
    from polhode import __version__

    method = task.integrator
    return {
        **describe_problem(task.problem),
        **_choice(task),
        **({"written_as": task.note} if task.note else {}),
        "integrator": {"name": task.integrator_name, "class": type(method).__name__, "options": _options(method)},
        "order": method.order,
        "t0": task.t0,
        "t1": task.t1,
        **step_metadata,
        **({"between_steps": True} if between_steps else {}),
        **({"promises_at_steps": True} if method.promises_at_steps else {}),
        **task.events.describe(),
        "promises": method.promises_for(task.run_system.system, task.state0),
        "method": serialise(method),
        "newton_tolerance": method.newton_tolerance(step_metadata.get("h")),
        "version": __version__,
        **describe_names(task.problem, task.run_system.outputs),
        **_scene(task),
    }


def describe_names(problem: Problem | None, outputs: Iterable[str]) -> dict[str, Any]:
    """Bodies and joints by name, and the axes of outputs."""
    name_table = problem.named if problem else None
    if name_table is None:
        return {}
    outputs = outputs if name_table.outputs else ()
    dimensions = {name: list(axes) for name, axes in declarations.axes().items() if name.split(".")[0] in outputs}
    if "contacts" in name_table.metadata:
        dimensions["multipliers"] = ["multiplier"]
    return {"names": _plain(dict(name_table.metadata)), **({"dimensions": dimensions} if dimensions else {})}


def describe_problem(problem: Problem | None) -> dict[str, Any]:
    """Plain values from which the problem can be rebuilt, if it is a named one or that of a file."""
    return {
        "problem": problem.name if problem else None,
        **({"origin": problem.origin} if problem and problem.origin else {}),
        "parameters": _plain(dict(problem.parameters)) if problem else {},
    }


def _choice(task: Task) -> dict[str, Any]:
    """The reasons for these coordinates, and for this method if it is the recommended one."""
    problem = task.problem
    choice = problem.choice if problem else NO_CHOICE
    is_default = problem is not None and task.integrator_name == problem.integrator
    reasons = {"coordinates": choice.coordinates, "method": choice.method if is_default else ""}
    choices = {key: reason for key, reason in reasons.items() if reason}
    return {"choice": choices} if choices else {}


def _scene(task: Task) -> dict[str, Any]:
    """The description of the scene, where there is one in plain values."""
    scene = task.problem.scene if task.problem else None
    description = task.run_system.source.picture if task.problem is None else scene and scene.description
    return {} if description is None else {"scene": _plain(dict(description))}


def _options(method: AbstractIntegrator) -> dict[str, Any]:
    """Numbers and words in which a method differs from the default of its class."""
    return {
        field.name: getattr(method, field.name)
        for field in dataclasses.fields(method)
        if field.default is not dataclasses.MISSING and getattr(method, field.name) != field.default
    }


def _plain(value: Any) -> Any:
    """Values that survive JSON: arrays become lists, tracers their description."""
    if isinstance(value, dict):
        return {k: _plain(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if isinstance(value, Tracer):
        return "traced"
    if isinstance(value, jax.Array | np.ndarray | np.generic):
        return np.asarray(value).tolist()
    return value if isinstance(value, str | int | float | bool | None) else repr(value)
