"""The variables of a unit: parameters, inputs and outputs, by names, with units where the model has some."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from polhode.code_export.exported_step import ExportedStep
from polhode.code_export.structs import Member
from polhode.problem import Problem
from polhode.results.declarations import axes, kinds
from polhode.storage import labels

_COORDINATES = {"joint_positions": ("angle", "length"), "joint_velocities": ("spin", "velocity")}
"""Kinds of outputs that joints have for each of their coordinates: of angles, and of lengths."""


class Variable(NamedTuple):
    """A variable of a unit.

    - `name`: as the structured names of FMI. - `causality`: "parameter", "input", "output", "state", "rate" or
      "indicator".
    - `shape`: that of its value. - `offset`: numbers before it, among parameters and inputs, or those of its causality.
    - `start`: the numbers that parameters and inputs have by default.
    - `quantity`: its kind, such as "velocity"; "" if that is not known.
    - `part`, `member`: what it is of, such as a body, and its name there; "" for variables of the whole.
    - `nominal`: the size that a state has. - `state`: the name of the state that it is a rate of.
    """

    name: str
    causality: str
    shape: tuple[int, ...]
    offset: int
    start: tuple[float, ...] = ()
    quantity: str = ""
    part: str = ""
    member: str = ""
    nominal: float = 1.0
    state: str = ""

    @property
    def size(self) -> int:
        return int(np.prod(self.shape, dtype=int))


def variables_of(step: ExportedStep, problem: Problem, state: Sequence[Member]) -> list[Variable]:
    """All variables: parameters, inputs, outputs, then states and their rates where solvers of importers need them.

    They are in the order of the numbers in the structs of the code.
    """
    names: Mapping[str, Any] = problem.named.metadata if problem.named else {}
    free = [*_free(step)]
    taken = {each.name for each in free}
    outputs = (
        each._replace(name=f"outputs.{each.name}") if each.name in taken else each for each in _outputs(step, names)
    )
    return [*free, *outputs, *_states(step, state)]


def _free(step: ExportedStep) -> Iterator[Variable]:
    at = 0
    parts = (("parameter", step.free.parameters), ("input", step.free.inputs))
    for (causality, names), values in zip(parts, step.free.defaults, strict=True):
        for name, value in zip(names, values, strict=True):
            array = np.asarray(value)
            yield Variable(fmi_name(name), causality, array.shape, at, tuple(array.ravel().tolist()))
            at += array.size


def _outputs(step: ExportedStep, names: Mapping[str, Any]) -> Iterator[Variable]:
    """Outputs; what models have for each body or coordinate is a variable for each of them."""
    at = 0
    for name, like in step.observe.program.out_shape.items():
        parts, kind = _labels(name, like.shape, names), kinds().get(name.rpartition(".")[2], "")
        shape = like.shape[1:] if parts else like.shape
        size = int(np.prod(shape, dtype=int))
        for label in parts or [""]:
            whole = fmi_name(f"{name}.{label}" if label else name)
            yield Variable(whole, "output", shape, at, (), _kind(name, label, names) or kind, label, name)
            at += size


def _states(step: ExportedStep, members: Sequence[Member]) -> Iterator[Variable]:
    """Arrays of the state, and their rates; `members`: those of the struct."""
    if step.equations is None or step.equations.rates is None:
        return
    at, states = 0, []
    leaves = [np.asarray(x) for x in jax.tree.leaves(step.begin.progress.carry.state) if np.size(x)]
    for member, leaf in zip(members, leaves, strict=True):
        # What is small at the start, or zero, says nothing of what it will be.
        nominal = max(1.0, float(np.max(np.abs(leaf))))
        states.append(Variable(f"states.{member.name}", "state", leaf.shape, at, nominal=nominal))
        at += leaf.size
    yield from states
    for each in states:
        yield each._replace(name=f"der({each.name})", causality="rate", state=each.name, nominal=1.0)
    if step.equations.indicators:
        yield Variable("indicators", "indicator", (step.equations.indicators,), 0)


def _labels(name: str, shape: tuple[int, ...], names: Mapping[str, Any]) -> list[str]:
    """Names along the first axis of an output; none if it has none."""
    axis = axes().get(name, ("",))[0]
    _, words = labels.coordinates(names, {axis}).get(axis, ("", []))
    return words if axis != "component" and shape and len(words) == shape[0] else []


def _kind(name: str, label: str, names: Mapping[str, Any]) -> str:
    """The kind of what a joint has for a coordinate; "" for other outputs."""
    if name not in _COORDINATES or not label:
        return ""
    joint, _, coordinate = label.rpartition(".")
    angle, length = _COORDINATES[name]
    return angle if coordinate in names["joints"][joint]["angles"] else length


def fmi_name(name: str) -> str:
    """A name as FMI structures them: identifiers between dots, others in quotes."""
    return ".".join(_word(part) for part in name.split("."))


def _word(part: str) -> str:
    if re.fullmatch(r"[A-Za-z_]\w*", part, re.ASCII):
        return part
    text = re.sub(r"[^A-Za-z0-9_!#$%&()*+,./:;<>=?@\[\]^{}|~ -]", "_", part)
    return f"'{text}'"
