"""The maps that a run consists of, as differentiable functions.

Only floats have derivatives, numbers of steps and codes have none. Parameters are some of the arrays of a system, given
by their `places` among its leaves. Each function here builds a `DifferentiableMap` from the `inputs` and `rest` of
`program_cache.cached`: arguments, a pair of a row and its derivatives, and the places.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np

from polhode.integrators.base import Carry
from polhode.simulation.stepping import counted_angles
from polhode.simulation.stepping.stepper import Progress

Tree = Any
LeafNumbers = tuple[int, ...]

_ON_STEP = 1e-9
"""Part of a step within which an instant is the end of it."""


class Step(NamedTuple):
    """A step: its time and length for the method, and the carry that it began with."""

    t: Any
    h: Any
    carry: Carry


class Instant(NamedTuple):
    """A state within a step: the step, the fraction `s` of it, and the carry at its end."""

    step: Step
    s: Any
    end: Carry


class DifferentiableMap(NamedTuple):
    """A function with its derivatives.

    - `function(args, row)`: returns floats. - `of(args, row)`: of trees like these, what it has derivatives with
      respect to. - `args`, `row`: examples.
    """

    function: Callable[[Any, Any], Tree]
    of: Callable[[Any, Any], Any]
    args: Any
    row: Any


def start(inputs: Any, rest: Any) -> DifferentiableMap:
    """Initial carry as a function of parameters and initial state."""
    (example_args, (state, _), _), (others, _, places) = inputs, rest

    def run(args: Any, state: Any) -> Tree:
        stepper, system, integrator = eqx.combine(args, others)
        return floats(stepper.start(system, integrator, state, False).carry)

    return DifferentiableMap(run, lambda args, state: (_leaf_numbers(args[1], places), state), example_args, state)


def restart(inputs: Any, rest: Any) -> DifferentiableMap:
    """Initial carry of a segment as a function of parameters and the final carry of the segment before."""
    (example_args, (p, _), _), (others, _, places) = inputs, rest
    mask = _float_mask(p.carry)

    def run(args: Any, p: Progress) -> Tree:
        stepper, system, integrator = eqx.combine(args, others)
        return floats(stepper.restart(system, integrator, p).carry)

    return DifferentiableMap(
        run, lambda args, p: (_leaf_numbers(args[1], places), eqx.filter(p.carry, mask)), example_args, p
    )


def step(inputs: Any, rest: Any) -> DifferentiableMap:
    """Carry at the end of a step as a function of the carry at its beginning and of parameters."""
    (example_args, begin, _), (others, _, places) = inputs, rest
    mask = _float_mask(begin.carry)

    def run(args: Any, step: Step) -> Tree:
        system, integrator = eqx.combine(args, others)
        return floats(counted_angles.step(integrator, system, *step)[0])

    return DifferentiableMap(
        run, lambda args, step: (eqx.filter(step.carry, mask), _leaf_numbers(args[0], places)), example_args, begin
    )


def interpolation(inputs: Any, rest: Any) -> DifferentiableMap:
    """State within a step as a function of parameters and of the carries at both ends of the step."""
    (example_args, (example, _), _), (others, _, places) = inputs, rest
    mask = _float_mask((example.step.carry, example.end))

    def run(args: Any, instant: Instant) -> Tree:
        (system, integrator), ((t, h, begin), s, end) = eqx.combine(args, others), instant
        return floats(counted_angles.interpolate(integrator, system, t, h, begin, end, s))

    def of(args: Any, instant: Instant) -> Any:
        return _leaf_numbers(args[0], places), *eqx.filter((instant.step.carry, instant.end), mask)

    return DifferentiableMap(run, of, example_args, example)


def observation(inputs: Any, rest: Any) -> DifferentiableMap:
    """Some leaves of an observation as a function of parameters and of the state at a time."""
    (example_args, (row, _), _), (others, _, (places, leaf_numbers)) = inputs, rest
    mask = _float_mask(row[1])

    def run(args: Any, row: Any) -> list[Any]:
        leaves = jax.tree.leaves(eqx.combine(args, others)(*row))
        return [leaves[k] for k in leaf_numbers]

    return DifferentiableMap(
        run, lambda args, row: (_leaf_numbers(args, places), eqx.filter(row[1], mask)), example_args, row
    )


def locate(times: np.ndarray, steps: Step, ends: Progress) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The step that contains each of some times, the fraction of it at that time, and whether that is its end."""
    near = _ON_STEP * np.abs(steps.h)
    later = (times[:, None] - ends.t) * np.sign(steps.h[0]) > near
    at = np.minimum(later.sum(1), len(ends.t) - 1)
    s = np.clip((times - steps.t[at]) / steps.h[at], 0.0, 1.0)
    return at, s, np.abs(s - 1) < _ON_STEP


def is_after(times: np.ndarray, t: Any, h: Any) -> np.ndarray:
    """Which times come after the instant t of a step of length h, in the direction of time."""
    return (times - t) * np.sign(h) > _ON_STEP * np.abs(h)


def floats(tree: Tree) -> Tree:
    """The floating-point leaves; None in place of all others."""
    return eqx.filter(tree, _float_mask(tree))


def pick(tree: Tree, places: LeafNumbers) -> list[Any]:
    """The arrays at some places."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return [leaves[k] for k in places]


def split(places: LeafNumbers, *trees: Any) -> list[LeafNumbers]:
    """Places among the arrays of several trees, one after the other, as those of each."""
    first, out = 0, []
    for tree in trees:
        last = first + len(jax.tree.leaves(eqx.filter(tree, eqx.is_array)))
        out.append(tuple(k - first for k in places if first <= k < last))
        first = last
    return out


def _float_mask(tree: Tree) -> Tree:
    """Whether each leaf of a tree has a derivative, as truth values."""
    return jax.tree.map(lambda x: eqx.is_array(x) and jnp.issubdtype(x.dtype, jnp.floating), tree)


def _leaf_numbers(numbers: Tree, places: LeafNumbers) -> list[int]:
    """The numbers at some places among those of a tree's arrays."""
    leaves = jax.tree.leaves(numbers)
    return [leaves[k] for k in places]
