"""Transposed derivatives of what a run consists of, in machine code or, of what comes once, by NumPy.

All of them take and return floats only: numbers of steps, codes and the like have no derivative. Parameters are some of
the arrays of a system, told by their `places` among its leaves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jaxtyping import Array

from polhode.captured import found
from polhode.driver.observing import Observer
from polhode.driver.stepping import AbstractStepper, Progress
from polhode.execution.kept import Keeping
from polhode.execution.mapping import RowMap
from polhode.execution.returning import Returning
from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.systems.base import AbstractSystem

Tree = Any
Places = tuple[int, ...]


class Step(NamedTuple):
    """What is known of a step: where and how long it was for the method, and what it began with."""

    t: Any
    h: Any
    carry: Carry


class Instant(NamedTuple):
    """What is known of a state within a step: that step, the part of it that had passed, and what it ended with."""

    step: Step
    s: Any
    end: Carry


def floats(tree: Tree) -> Tree:
    """All that has a derivative; None in the place of everything else."""
    return eqx.filter(tree, _moving(tree))


def picked(tree: Tree, places: Places) -> list[Any]:
    """The arrays at some places."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return [leaves[k] for k in places]


def start_back(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: Any,
    places: Places,
    cotangent: Tree,
) -> tuple[list[Any], Tree]:
    """From what a run begins with to parameters and the initial state. Raises `NotNative` as the others do."""
    given, row = (stepper, system, integrator), (state, cotangent)
    (mapping,), inputs = found(_start_back, given, row, places, keeping=_MAPPING)
    return jax.tree.map(lambda x: x[0], mapping(inputs[0], jax.tree.map(lambda x: np.asarray(x)[None], row)))


def _start_back(inputs: Any, rest: Any) -> tuple[RowMap]:
    (given, (state, cotangent), _), (others, _, places) = inputs, rest

    def start(args: Any, state: Any) -> Tree:
        stepper, system, integrator = eqx.combine(args, others)
        return floats(stepper.start(system, integrator, state, False).carry)

    def of(args: Any, state: Any) -> tuple[list[Any], Tree]:
        return _numbered(args[1], places), state

    return (RowMap.back(start, of, given, state, cotangent),)


def again_back(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    places: Places,
    cotangent: Tree,
) -> tuple[list[Any], Tree]:
    """From what a leg begins with to parameters and to what the one before ended with."""
    given, row = (stepper, system, integrator), (p, cotangent)
    (mapping,), inputs = found(_again_back, given, row, places, keeping=_MAPPING)
    return jax.tree.map(lambda x: x[0], mapping(inputs[0], jax.tree.map(lambda x: np.asarray(x)[None], row)))


def _again_back(inputs: Any, rest: Any) -> tuple[RowMap]:
    (given, (p, cotangent), _), (others, _, places) = inputs, rest
    wanted = _moving(p.carry)

    def again(args: Any, p: Progress) -> Tree:
        stepper, system, integrator = eqx.combine(args, others)
        return floats(stepper.again(system, integrator, p).carry)

    def of(args: Any, p: Progress) -> tuple[list[Any], Tree]:
        return _numbered(args[1], places), eqx.filter(p.carry, wanted)

    return (RowMap.back(again, of, given, p, cotangent),)


def steps_back(
    system: AbstractSystem, integrator: AbstractIntegrator, places: Places, step: Step
) -> Callable[[Step, Tree, Tree], tuple[Tree, list[Array]]]:
    """A function of stacked steps like this one: see `Returning`. Raises `NotNative` if it can't be machine code."""
    returning, inputs = found(_steps_back, (system, integrator), step, places, keeping=_RETURNING)
    return lambda steps, carried, added: returning(inputs[0], steps, carried, added)


def _steps_back(inputs: Any, rest: Any) -> Returning:
    (given, step, _), (others, _, places) = inputs, rest
    wanted = _moving(step.carry)

    def advance(args: Any, step: Step) -> Tree:
        system, integrator = eqx.combine(args, others)
        return floats(integrator.step(system, *step)[0])

    def of(args: Any, step: Step) -> tuple[Tree, list[Any]]:
        return eqx.filter(step.carry, wanted), _numbered(args[0], places)

    return Returning.of(advance, of, given, step)


def instants_back(
    system: AbstractSystem, integrator: AbstractIntegrator, places: Places, instant: Instant
) -> Callable[[Instant, Tree], tuple[list[Array], Tree, Tree]]:
    """A function of stacked instants like this one, and what the derivative is with respect to their states.

    From there to parameters, and to what their steps began and ended with. Raises `NotNative` if it can't be machine
    code.
    """
    state = floats(instant.end.state)
    (mapping,), inputs = found(_instants_back, (system, integrator), (instant, state), places, keeping=_MAPPING)
    return lambda instants, cotangents: mapping(inputs[0], (instants, cotangents))


def _instants_back(inputs: Any, rest: Any) -> tuple[RowMap]:
    (given, (instant, cotangent), _), (others, _, places) = inputs, rest
    wanted = _moving((instant.step.carry, instant.end))

    def inside(args: Any, instant: Instant) -> Tree:
        (system, integrator), ((t, h, begin), s, end) = eqx.combine(args, others), instant
        return floats(integrator.interpolate(system, t, h, begin, end, s))

    def of(args: Any, instant: Instant) -> Any:
        return _numbered(args[0], places), *eqx.filter((instant.step.carry, instant.end), wanted)

    return (RowMap.back(inside, of, given, instant, cotangent),)


def seen_back(
    observer: Observer, places: Places, wanted: tuple[int, ...], row: tuple[tuple[Any, Any], list[Any]]
) -> Callable[[tuple[tuple[Any, Any], list[Any]]], tuple[list[Array], Tree]]:
    """A function of stacked times and states, and of derivatives with respect to some of what is seen, like `row`.

    From there to parameters and states. `wanted` says which leaves of `Seen` those are. Raises `NotNative` if it can't
    be machine code.
    """
    (mapping,), inputs = found(_seen_back, observer, row, (places, wanted), keeping=_MAPPING)
    return lambda rows: mapping(inputs[0], rows)


def _seen_back(inputs: Any, rest: Any) -> tuple[RowMap]:
    (given, ((t, state), cotangents), _), (others, _, (places, wanted)) = inputs, rest
    of_state = _moving(state)

    def see(args: Any, row: Any) -> list[Array]:
        leaves = jax.tree.leaves(eqx.combine(args, others)(*row))
        return [leaves[k] for k in wanted]

    def of(args: Any, row: Any) -> Any:
        return _numbered(args, places), eqx.filter(row[1], of_state)

    return (RowMap.back(see, of, given, (t, state), cotangents),)


def _moving(tree: Tree) -> Tree:
    """What of a tree has a derivative, as truth values."""
    return jax.tree.map(lambda x: eqx.is_array(x) and jnp.issubdtype(x.dtype, jnp.floating), tree)


def _numbered(numbers: Tree, places: Places) -> list[int]:
    """Those at some places among the numbers of a tree's arrays."""
    leaves = jax.tree.leaves(numbers)
    return [leaves[k] for k in places]


def _watch_steps(made: Returning, write: Callable[[], None]) -> None:
    made.code.when_improved = write


def _watch_rows(made: tuple[RowMap], write: Callable[[], None]) -> None:
    made[0].code.when_improved = write


_RETURNING: Keeping[Returning] = Keeping(
    dump=lambda made: (made.code, made.summed),
    load=lambda kept, inputs: Returning(kept[0], inputs[0], inputs[1], floats(inputs[1].carry), kept[1]),
    watch=_watch_steps,
)

_MAPPING: Keeping[tuple[RowMap]] = Keeping(
    dump=lambda made: (made[0].code, made[0].out),
    load=lambda kept, inputs: (RowMap(kept[0], kept[1], inputs[0], inputs[1]),),
    watch=_watch_rows,
)
