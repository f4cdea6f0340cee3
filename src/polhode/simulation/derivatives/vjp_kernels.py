"""Compiled vector–Jacobian products of the start, restart, step, interpolation and output maps.

The maps are those of `differentiable_maps`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np

from polhode.compiler.cache.disk_cache import Serialiser
from polhode.compiler.cache.program_cache import find_program
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.loops.vjp_loop import AdjointLoop
from polhode.integrators.base import AbstractIntegrator
from polhode.results.observer import Observer
from polhode.simulation.derivatives import differentiable_maps
from polhode.simulation.derivatives.differentiable_maps import Instant, LeafNumbers, Step, Tree, floats
from polhode.simulation.stepping.stepper import AbstractStepper, Progress
from polhode.systems.base import AbstractSystem


def start_vjp(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: Any,
    places: LeafNumbers,
    cotangent: Tree,
) -> tuple[list[Any], Tree]:
    """From the initial carry to parameters and the initial state.

    Raises `UnsupportedNativeOperation`, as the others do.
    """
    return map_single(_start_vjp, (stepper, system, integrator), (state, cotangent), places)


def _start_vjp(inputs: Any, rest: Any) -> tuple[RowMap]:
    return (RowMap.vjp(*differentiable_maps.start(inputs, rest), inputs[1][1]),)


def restart_vjp(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    places: LeafNumbers,
    cotangent: Tree,
) -> tuple[list[Any], Tree]:
    """From the initial carry of a segment to parameters and the final carry of the segment before."""
    return map_single(_restart_vjp, (stepper, system, integrator), (p, cotangent), places)


def _restart_vjp(inputs: Any, rest: Any) -> tuple[RowMap]:
    return (RowMap.vjp(*differentiable_maps.restart(inputs, rest), inputs[1][1]),)


def steps_vjp(
    system: AbstractSystem, integrator: AbstractIntegrator, places: LeafNumbers, step: Step
) -> Callable[[Step, Tree, Tree], tuple[Tree, list[Any]]]:
    """A function of stacked steps like this one: see `AdjointLoop`."""
    loop, inputs = find_program(_steps_vjp, (system, integrator), step, places, serialiser=_ADJOINT_LOOPS)
    return lambda steps, carried, added: loop(inputs[0], steps, carried, added)


def _steps_vjp(inputs: Any, rest: Any) -> AdjointLoop:
    return AdjointLoop.of(*differentiable_maps.step(inputs, rest))


def interpolation_vjp(
    system: AbstractSystem, integrator: AbstractIntegrator, places: LeafNumbers, instant: Instant
) -> Callable[[Instant, Tree], tuple[list[Any], Tree, Tree]]:
    """A function of stacked instants like this one, and what the derivative is with respect to their states.

    From there to parameters, and to what their steps began and ended with.
    """
    row = instant, floats(instant.end.state)
    (row_map,), inputs = find_program(_interpolation_vjp, (system, integrator), row, places, serialiser=ROW_MAPS)
    return lambda instants, cotangents: row_map(inputs[0], (instants, cotangents))


def _interpolation_vjp(inputs: Any, rest: Any) -> tuple[RowMap]:
    return (RowMap.vjp(*differentiable_maps.interpolation(inputs, rest), inputs[1][1]),)


def observation_vjp(
    observer: Observer, places: LeafNumbers, leaf_numbers: tuple[int, ...], row: tuple[tuple[Any, Any], list[Any]]
) -> Callable[[tuple[tuple[Any, Any], list[Any]]], tuple[list[Any], Tree]]:
    """A function of stacked times and states, and of cotangents of some leaves of their observations, like `row`.

    It returns cotangents of parameters and states. `leaf_numbers`: the leaves of `Observation` with cotangents.
    """
    (row_map,), inputs = find_program(_observation_vjp, observer, row, (places, leaf_numbers), serialiser=ROW_MAPS)
    return lambda rows: row_map(inputs[0], rows)


def _observation_vjp(inputs: Any, rest: Any) -> tuple[RowMap]:
    return (RowMap.vjp(*differentiable_maps.observation(inputs, rest), inputs[1][1]),)


def map_single(make: Callable[..., tuple[RowMap]], static: Any, row: Any, places: Any) -> Any:
    """The result of a map of rows for a single row."""
    (row_map,), inputs = find_program(make, static, row, places, serialiser=ROW_MAPS)
    return jax.tree.map(lambda x: x[0], row_map(inputs[0], jax.tree.map(lambda x: np.asarray(x)[None], row)))


def _on_improved_loop(loop: AdjointLoop, write: Callable[[], None]) -> None:
    loop.code.when_improved = write


def _on_improved_map(maps: tuple[RowMap], write: Callable[[], None]) -> None:
    maps[0].code.when_improved = write


_ADJOINT_LOOPS: Serialiser[AdjointLoop] = Serialiser(
    dump=lambda built: (built.code, built.parameters),
    load=lambda parts, inputs: AdjointLoop(parts[0], inputs[0], inputs[1], floats(inputs[1].carry), parts[1]),
    watch=_on_improved_loop,
)

ROW_MAPS: Serialiser[tuple[RowMap]] = Serialiser(
    dump=lambda built: (built[0].code, built[0].out),
    load=lambda parts, inputs: (RowMap(parts[0], parts[1], inputs[0], inputs[1]),),
    watch=_on_improved_map,
)
"""How maps of rows are kept."""
