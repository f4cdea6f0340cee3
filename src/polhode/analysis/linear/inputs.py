"""Inputs of a linear model: forces along coordinates of joints, and parameters."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.analysis.linear.linearisation_point import LinearisationPoint, coordinates, element_names
from polhode.analysis.statics._deviations import velocity_of
from polhode.compiler.numpy_jit import numpy_jit
from polhode.linalg.host import to_sparse
from polhode.name_errors import unknown_name
from polhode.problem import Problem
from polhode.spaces.base import Vector
from polhode.systems.mechanical import AbstractMechanical


class Input(NamedTuple):
    """Names, effect on the velocity of the state (dim, inputs), values, and the problem as a function of them."""

    names: tuple[str, ...]
    effect: np.ndarray
    values: np.ndarray
    with_values: Callable[[Array], Problem] | None


def input_named(point: LinearisationPoint, name: Any) -> Input:
    """A force along coordinates of a joint, or a parameter of the problem. Raises `UnknownName`."""
    joints = coordinates(point)
    if name in joints or any(each.startswith(f"{name}.") for each in joints):
        return _along(point, name)
    parameters = point.problem.parameters if point.problem else {}
    if name in parameters and point.problem is not None:
        return _parameter(point, point.problem, name)
    raise unknown_name("input", name, [*dict.fromkeys(each.split(".")[0] for each in joints), *joints, *parameters])


def _along(point: LinearisationPoint, name: str) -> Input:
    """Generalised forces along coordinates of joints, with power force × rate."""
    rates = coordinates(point)
    names = (name,) if name in rates else tuple(each for each in rates if each.startswith(f"{name}."))
    system = point.system
    assert isinstance(system, AbstractMechanical)
    assert point.problem is not None
    assert point.problem.named is not None
    at = np.array([rates[each] for each in names])
    n, m = system.n, system.m
    directions, M, B = _input_matrices(point.problem.named.readings, system, jnp.asarray(point.t), *point.state)
    M, B = to_sparse(M, (n, n)).toarray(), to_sparse(B, (m, n)).toarray() if m else np.zeros((0, n))
    saddle = np.block([[M, B.T], [B, np.zeros((m, m))]])
    loads = np.vstack((np.asarray(directions)[at].T, np.zeros((m, len(at)))))
    # Redundant constraints share their forces somehow; accelerations don't depend on it.
    accelerations = np.linalg.lstsq(saddle, loads, rcond=1e-13)[0][:n]
    short = tuple(each.split(".")[0] if len(names) == 1 else each for each in names)
    return Input(
        short if name not in rates else names, np.vstack((np.zeros((n, len(at))), accelerations)), np.zeros(0), None
    )


@numpy_jit
def _input_matrices(readings: Any, system: Any, t: Array, q: Any, v: Vector) -> tuple[Any, ...]:
    rates = jax.jacfwd(lambda w: readings.velocities(system, q, w))(v)
    return rates, system.mass(t, q), system.jacobian(t, q) if system.m else ()


def _parameter(point: LinearisationPoint, problem: Problem, name: str) -> Input:
    values = np.asarray(problem.parameters[name])
    if values.dtype == bool or not np.issubdtype(values.dtype, np.number):
        raise ValueError(f"Parameter `{name}` of problem `{problem.name}` is no number, so it can't be an input.")
    shape, start = values.shape, jnp.asarray(values.ravel(), dtype=float)

    def with_values(u: Array) -> Problem:
        return problem.replace(**{name: u.reshape(shape)})

    def response(u: Array) -> tuple[Array, Array]:
        system, t = with_values(u).system, jnp.asarray(point.t)
        holds = [jnp.zeros(0)]
        if isinstance(system, AbstractMechanical) and system.m:
            q, v = point.state
            holds = [system.constraint(t, q), system.constraint_rate(t, q, v)]
        return velocity_of(system, t, point.state), jnp.concatenate(holds)

    effect, gap_slopes = (np.asarray(x) for x in jax.jacfwd(response)(start))
    if np.max(np.abs(gap_slopes), initial=0.0) > 1e-12:
        raise ValueError(
            f"Parameter `{name}` moves the joints of problem `{problem.name}`: the state would leave its constraints, "
            "so it can't be an input. Forces, torques and stiffnesses can."
        )
    return Input(element_names(name, shape), effect, np.asarray(start), with_values)
