"""Metadata of a run, in plain values: all that a solution and its store say about how it was made."""

from __future__ import annotations

import dataclasses
from typing import Any

from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.serialisation import serialise
from polhode.problem import NO_CHOICE
from polhode.results.problem_description import describe_names, describe_problem, plain_values
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
    return {} if description is None else {"scene": plain_values(dict(description))}


def _options(method: AbstractIntegrator) -> dict[str, Any]:
    """Numbers and words in which a method differs from the default of its class."""
    return {
        field.name: getattr(method, field.name)
        for field in dataclasses.fields(method)
        if field.default is not dataclasses.MISSING and getattr(method, field.name) != field.default
    }
