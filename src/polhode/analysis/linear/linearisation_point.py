"""Linearisation point: problem, system, time and state."""

from __future__ import annotations

from typing import Any, NamedTuple

import jax.numpy as jnp
import numpy as np

from polhode import checks
from polhode.jax_context import inside_transformation
from polhode.problem import Problem
from polhode.systems.base import AbstractSystem, State
from polhode.systems.mechanical import AbstractMechanical


class LinearisationPoint(NamedTuple):
    """System, time and state of a linearisation; `problem` is None for a bare system."""

    problem: Problem | None
    system: AbstractSystem
    t: float
    state: State

    @classmethod
    def of(cls, problem: Any, t: Any, state: Any) -> LinearisationPoint:
        as_problem = problem if isinstance(problem, Problem) else None
        system = problem.system if as_problem else problem
        if not isinstance(system, AbstractSystem):
            raise checks.not_a_problem(problem)
        if system.has_contacts:
            raise ValueError(
                "Bodies of this system touch each other, and linear models know nothing of contacts, whose laws have "
                "kinks. Take the model without `contacts`, with joints in place of those that stay closed, and with "
                "elastic stops and smooth friction of joints."
            )
        if state is None and as_problem is None:
            raise ValueError("A bare system needs `state`; a Problem brings its own.")
        if inside_transformation():
            raise ValueError(
                "Linear models are made on the host; call `linearise` and `floquet` outside jit, grad and vmap."
            )
        time = float(
            as_problem.t_span[0] if t is None and as_problem else 0.0 if t is None else checks.number("t", t, "time")
        )
        state = system.as_state(as_problem.state0 if as_problem and state is None else state, "state")
        system.check(time, state)
        if system.velocity(jnp.asarray(time), state) is None:
            raise ValueError(
                f"The velocity of a {system.kind_name} is no function of its state. Take the problem in other "
                "coordinates, such as `model.problem('minimal')` or 'SE3'."
            )
        return cls(as_problem, system, time, state)


def coordinates(point: LinearisationPoint) -> dict[str, int]:
    """Coordinates of joints, "pin.angle", and their indices among the joint measurements."""
    name_table = point.problem.named if point.problem else None
    if name_table is None or not isinstance(point.system, AbstractMechanical):
        return {}
    joints = name_table.metadata["joints"]
    return {f"{joint}.{label}": k for joint, entry in joints.items() for label, k in entry["coordinates"].items()}


def element_names(name: str, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Names of the elements of an array."""
    return (name,) if not shape else tuple(f"{name}[{', '.join(map(str, k))}]" for k in np.ndindex(shape))


def rates_of(positions: dict[str, int]) -> dict[str, int]:
    """Rates of coordinates, "pin.rate", or "ball.x_rate" where a joint has several."""
    joints = [each.rsplit(".", 1)[0] for each in positions]
    return {
        (f"{joint}.rate" if joints.count(joint) == 1 else f"{each}_rate"): positions[each]
        for joint, each in zip(joints, positions, strict=True)
    }
