"""Transposed derivatives of what a run consists of, in machine code or, of what comes once, by NumPy.

All of them take and return floats only: numbers of steps, codes and the like have no derivative. Parameters are some of
the arrays of a system, told by their `places` among its leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
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
from polhode.execution.once import interpreted
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
    return _divided(tree)[0]


def picked(tree: Tree, places: Places) -> list[Array]:
    """The arrays at some places."""
    leaves = jax.tree.leaves(eqx.filter(tree, eqx.is_array))
    return [jnp.asarray(leaves[k]) for k in places]


def put(tree: Tree, places: Places, values: Sequence[Array]) -> Tree:
    """The tree with other arrays at these places."""
    arrays, rest = eqx.partition(tree, eqx.is_array)
    leaves, structure = jax.tree.flatten(arrays)
    for k, value in zip(places, values, strict=True):
        leaves[k] = value
    return eqx.combine(jax.tree.unflatten(structure, leaves), rest)


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
    (given, row, _), (others, _, places) = inputs, rest

    def back(args: Any, row: tuple[Any, Tree]) -> tuple[list[Array], Tree]:
        (stepper, system, integrator), (state, cotangent) = eqx.combine(args, others), row

        def start(values: list[Array], state: Any) -> Tree:
            return floats(stepper.start(put(system, places, values), integrator, state, False).carry)

        return jax.vjp(start, picked(system, places), state)[1](cotangent)

    return (RowMap.of(back, given, row, differentiates=True),)


@interpreted
def again_back(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    places: Places,
    cotangent: Tree,
) -> tuple[list[Array], Tree]:
    """From what a leg begins with to parameters and to what the one before ended with."""
    moving, fixed = _divided(p.carry)

    def again(values: list[Array], moving: Tree) -> Tree:
        before = p._replace(carry=eqx.combine(moving, fixed))
        return floats(stepper.again(put(system, places, values), integrator, before).carry)

    return jax.vjp(again, picked(system, places), moving)[1](cotangent)


def steps_back(
    system: AbstractSystem, integrator: AbstractIntegrator, places: Places, step: Step
) -> Callable[[Step, Tree, Tree], tuple[Tree, list[Array]]]:
    """A function of stacked steps like this one: see `Returning`. Raises `NotNative` if it can't be machine code."""
    returning, inputs = found(_steps_back, (system, integrator), step, places, keeping=_RETURNING)
    return lambda steps, carried, added: returning(inputs[0], steps, carried, added)


def _steps_back(inputs: Any, rest: Any) -> Returning:
    (given, step, _), (others, _, places) = inputs, rest

    def back(args: Any, step: Step, cotangent: Tree) -> tuple[Tree, list[Array]]:
        system, integrator = eqx.combine(args, others)
        moving, fixed = _divided(step.carry)

        def advance(values: list[Array], moving: Tree) -> Tree:
            begin = eqx.combine(moving, fixed)
            return floats(integrator.step(put(system, places, values), step.t, step.h, begin)[0])

        to_parameters, to_carry = jax.vjp(advance, picked(system, places), moving)[1](cotangent)
        return to_carry, to_parameters

    return Returning.of(back, given, step, floats(step.carry))


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
    (given, row, _), (others, _, places) = inputs, rest

    def back(args: Any, row: tuple[Instant, Tree]) -> Any:
        (system, integrator), (instant, cotangent) = eqx.combine(args, others), row
        (t, h, begin), s, end = instant
        (first, fixed_first), (last, fixed_last) = _divided(begin), _divided(end)

        def inside(values: list[Array], first: Tree, last: Tree) -> Tree:
            ends = eqx.combine(first, fixed_first), eqx.combine(last, fixed_last)
            return floats(integrator.interpolate(put(system, places, values), t, h, *ends, s))

        return jax.vjp(inside, picked(system, places), first, last)[1](cotangent)

    return (RowMap.of(back, given, row, differentiates=True),)


def seen_back(
    observer: Observer, places: Places, wanted: tuple[int, ...], row: tuple[Any, Any, list[Any]]
) -> Callable[[tuple[Any, Any, list[Any]]], tuple[list[Array], Tree]]:
    """A function of stacked times, states, and derivatives with respect to some of what is seen of them, like `row`.

    From there to parameters and states. `wanted` says which leaves of `Seen` those are. Raises `NotNative` if it can't
    be machine code.
    """
    (mapping,), inputs = found(_seen_back, observer, row, (places, wanted), keeping=_MAPPING)
    return lambda rows: mapping(inputs[0], rows)


def _seen_back(inputs: Any, rest: Any) -> tuple[RowMap]:
    (given, row, _), (others, _, (places, wanted)) = inputs, rest

    def back(args: Any, row: Any) -> Any:
        observer, (t, state, cotangents) = eqx.combine(args, others), row
        moving, fixed = _divided(state)

        def see(values: list[Array], moving: Tree) -> list[Array]:
            leaves = jax.tree.leaves(put(observer, places, values)(t, eqx.combine(moving, fixed)))
            return [leaves[k] for k in wanted]

        return jax.vjp(see, picked(observer, places), moving)[1](cotangents)

    return (RowMap.of(back, given, row, differentiates=True),)


def _divided(tree: Tree) -> tuple[Tree, Tree]:
    """What has a derivative, and everything else."""
    return eqx.partition(tree, lambda x: eqx.is_array(x) and jnp.issubdtype(x.dtype, jnp.floating))


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
