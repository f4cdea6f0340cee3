"""Compiled Jacobian–vector products of the start, restart, step, interpolation and output maps.

The maps are those of `differentiable_maps`. A direction is a pair: of parameters, and of the other inputs of the map,
in the order of the map.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from polhode.compiler.cache.disk_cache import Serialiser
from polhode.compiler.cache.program_cache import find_program
from polhode.compiler.loops.jvp_loop import TangentLoop
from polhode.compiler.loops.row_map import RowMap
from polhode.integrators.base import AbstractIntegrator
from polhode.results.observer import Observer
from polhode.simulation.derivatives import differentiable_maps
from polhode.simulation.derivatives.differentiable_maps import Instant, LeafNumbers, Step, Tree, floats
from polhode.simulation.derivatives.vjp_kernels import ROW_MAPS, map_single
from polhode.simulation.stepping.stepper import AbstractStepper, Progress
from polhode.systems.base import AbstractSystem


def start_jvp(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state: Any,
    places: LeafNumbers,
    directions: Any,
) -> Tree:
    """The derivative of what a run begins with. Raises `UnsupportedNativeOperation` as the others do."""
    return map_single(_start_jvp, (stepper, system, integrator), (state, directions), places)


def _start_jvp(inputs: Any, rest: Any) -> tuple[RowMap]:
    return (RowMap.jvp(*differentiable_maps.start(inputs, rest)),)


def restart_jvp(
    stepper: AbstractStepper,
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    p: Progress,
    places: LeafNumbers,
    directions: Any,
) -> Tree:
    """The derivative of the initial carry of a segment."""
    return map_single(_restart_jvp, (stepper, system, integrator), (p, directions), places)


def _restart_jvp(inputs: Any, rest: Any) -> tuple[RowMap]:
    return (RowMap.jvp(*differentiable_maps.restart(inputs, rest)),)


def steps_jvp(
    system: AbstractSystem, integrator: AbstractIntegrator, places: LeafNumbers, step: Step
) -> Callable[[Step, Tree, list[Any]], Tree]:
    """A function of stacked steps like this one: see `TangentLoop`."""
    loop, inputs = find_program(_steps_jvp, (system, integrator), step, places, serialiser=_TANGENT_LOOPS)
    return lambda steps, carried, fixed: loop(inputs[0], steps, carried, fixed)


def _steps_jvp(inputs: Any, rest: Any) -> TangentLoop:
    return TangentLoop.of(*differentiable_maps.step(inputs, rest))


def interpolation_jvp(
    system: AbstractSystem, integrator: AbstractIntegrator, places: LeafNumbers, instant: Instant, directions: Any
) -> Callable[[Instant, Any], Tree]:
    """A function of stacked instants like this one, and of directions, that gives the derivatives of their states."""
    row = instant, directions
    (row_map,), inputs = find_program(_interpolation_jvp, (system, integrator), row, places, serialiser=ROW_MAPS)
    return lambda instants, directions: row_map(inputs[0], (instants, directions))


def _interpolation_jvp(inputs: Any, rest: Any) -> tuple[RowMap]:
    return (RowMap.jvp(*differentiable_maps.interpolation(inputs, rest)),)


def observation_jvp(
    observer: Observer, places: LeafNumbers, leaf_numbers: tuple[int, ...], row: tuple[tuple[Any, Any], Any]
) -> Callable[[tuple[tuple[Any, Any], Any]], list[Any]]:
    """A function of stacked times, states and directions, like `row`, that gives derivatives of observations.

    `leaf_numbers`: the leaves of `Observation` that are differentiated.
    """
    (row_map,), inputs = find_program(_observation_jvp, observer, row, (places, leaf_numbers), serialiser=ROW_MAPS)
    return lambda rows: row_map(inputs[0], rows)


def _observation_jvp(inputs: Any, rest: Any) -> tuple[RowMap]:
    return (RowMap.jvp(*differentiable_maps.observation(inputs, rest)),)


def _on_improved(loop: TangentLoop, write: Callable[[], None]) -> None:
    loop.code.when_improved = write


_TANGENT_LOOPS: Serialiser[TangentLoop] = Serialiser(
    dump=lambda loop: (loop.code, loop.parameters),
    load=lambda parts, inputs: TangentLoop(parts[0], inputs[0], inputs[1], floats(inputs[1].carry), parts[1]),
    watch=_on_improved,
)
