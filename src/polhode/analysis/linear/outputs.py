"""Outputs of a linear model: outputs of the problem, coordinates and rates of joints."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.analysis.linear.inputs import Input
from polhode.analysis.linear.linearisation_point import LinearisationPoint, coordinates, element_names, rates_of
from polhode.name_errors import unknown_name
from polhode.problem import Problem
from polhode.systems.base import State

Readout = Callable[[Problem, Array, State], Array]
"""(problem, t, state) → values, shape (k,)."""


class Output(NamedTuple):
    """An output as a function of the state, and the names of its elements."""

    read: Readout
    labels: tuple[str, ...]


class OutputMatrices(NamedTuple):
    """All outputs: derivatives with respect to state (C) and inputs (D), values and names."""

    C: np.ndarray
    D: np.ndarray
    y0: np.ndarray
    names: tuple[str, ...]


def output_named(point: LinearisationPoint, name: Any) -> Output:
    """An output of the problem, or coordinates and rates of a joint. Raises `UnknownName`."""
    problem, positions = point.problem, coordinates(point)
    if problem is not None and name in problem.outputs:
        shape = np.shape(problem.outputs[name](jnp.asarray(point.t), point.state))
        labels = element_names(name, shape)
        return Output(lambda problem, t, state: jnp.ravel(problem.outputs[name](t, state)), labels)
    rates = rates_of(positions)
    both = (*positions, *rates)
    labels = tuple(each for each in both if each == name or each.startswith(f"{name}."))
    if not labels:
        names = problem.outputs if problem else ()
        raise unknown_name("output", name, [*names, *dict.fromkeys(each.split(".")[0] for each in positions), *both])
    return Output(lambda problem, t, state: _of_joints(problem, state, labels, positions, rates), labels)


def _of_joints(
    problem: Problem, state: State, labels: Sequence[str], positions: Mapping[str, int], rates: Mapping[str, int]
) -> Array:
    system: Any = problem.system
    assert problem.named is not None
    readings = problem.named.readings
    values, speeds = readings.positions_in(system, state), readings.velocities(system, *state)
    return jnp.stack([values[positions[x]] if x in positions else speeds[rates[x]] for x in labels])


def output_matrices(
    point: LinearisationPoint, outputs: Sequence[Output], T: np.ndarray, inputs: Sequence[Input]
) -> OutputMatrices:
    """C along the columns of T, D with respect to the inputs, and values of all outputs."""
    count = sum(len(each.names) for each in inputs)
    C, D, y0 = [np.zeros((0, T.shape[1]))], [np.zeros((0, count))], [np.zeros(0)]
    for output in outputs:
        C.append(_along(point, output, T))
        y0.append(np.asarray(output.read(_problem(point), jnp.asarray(point.t), point.state)))
        D.append(np.hstack([np.zeros((len(y0[-1]), 0)), *(_through(point, output, each) for each in inputs)]))
    return OutputMatrices(
        np.vstack(C), np.vstack(D), np.concatenate(y0), tuple(x for each in outputs for x in each.labels)
    )


def _along(point: LinearisationPoint, output: Output, T: np.ndarray) -> np.ndarray:
    problem, space, t = _problem(point), point.system.state_space, jnp.asarray(point.t)
    output_at = lambda x: output.read(problem, t, space.move(point.state, jnp.asarray(T) @ x))  # noqa: E731
    return np.asarray(jax.jacfwd(output_at)(jnp.zeros(T.shape[1])))


def _through(point: LinearisationPoint, output: Output, source: Input) -> np.ndarray:
    """The direct effect of an input on an output."""
    with_values, t = source.with_values, jnp.asarray(point.t)
    if with_values is None:
        return np.zeros((len(output.labels), len(source.names)))
    return np.asarray(jax.jacfwd(lambda u: output.read(with_values(u), t, point.state))(jnp.asarray(source.values)))


def _problem(point: LinearisationPoint) -> Problem:
    assert point.problem is not None
    return point.problem


def state_names(point: LinearisationPoint, T: np.ndarray) -> tuple[str, ...]:
    """Names of joint coordinates and rates for the states that equal one; x1, x2, … for the others."""
    names = [f"x{k + 1}" for k in range(T.shape[1])]
    for joint in dict.fromkeys(each.split(".")[0] for each in coordinates(point)):
        output = output_named(point, joint)
        for label, row in zip(output.labels, _along(point, output, T), strict=True):
            places = np.flatnonzero(np.abs(row) > 1e-9)
            if len(places) == 1 and abs(row[places[0]] - 1) < 1e-9:
                names[places[0]] = label
    return tuple(names)
