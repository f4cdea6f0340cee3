"""The five maps that a run consists of, and their compiled derivatives in both directions.

Only floats have derivatives; numbers of steps and codes have none. Parameters are some of the arrays of a model, the
system or the observer, given by their `places` among its leaves. Derivatives raise `UnsupportedNativeOperation` where
they can't be machine code.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import equinox as eqx
import jax
import jax.numpy as jnp

from polhode.compiler.cache.disk_cache import Serialiser
from polhode.compiler.cache.program_cache import find_program
from polhode.compiler.loops.derivative_loop import DerivativeLoop
from polhode.compiler.loops.row_map import RowMap
from polhode.compiler.number_pattern import NumberPattern
from polhode.integrators.base import AbstractIntegrator, Carry
from polhode.simulation.stepping import counted_angles, divided_steps
from polhode.simulation.stepping.stepper import Progress, restart_after_jump
from polhode.systems.base import AbstractSystem

Tree = Any
LeafNumbers = tuple[int, ...]


class Step(NamedTuple):
    """A step: its time and length for the method, and the carry that it began with.

    `after_jump`: whether loads have jumped before; None if they never do.
    """

    t: Any
    h: Any
    carry: Carry
    after_jump: Any = None

    def with_restart(self, system: AbstractSystem, integrator: AbstractIntegrator) -> tuple[Any, Any, Carry]:
        """Time, length and carry with which the method takes the step."""
        t, h, carry, after_jump = self
        return t, h, restart_after_jump(system, integrator, t, h, carry, after_jump)


class Instant(NamedTuple):
    """A state within a step: the step, the fraction `s` of it, and the carry at its end."""

    step: Step
    s: Any
    end: Carry


class RunMap(NamedTuple):
    """A map of a run: `function(parts, row)`, with derivatives with respect to parameters and to `inputs(row)`.

    `model`: which of the parts has the parameters.
    """

    function: Callable[[Any, Any], Tree]
    inputs: Callable[[Any], tuple[Tree, ...]]
    model: int = 0


def _start(parts: Any, state: Any) -> Tree:
    """Initial carry as a function of the initial state."""
    stepper, system, integrator = parts
    return stepper.start(system, integrator, state, False).carry


def _restart(parts: Any, p: Progress) -> Tree:
    """Initial carry of a segment as a function of the final carry of the segment before."""
    stepper, system, integrator = parts
    return stepper.restart(system, integrator, p).carry


def _step(parts: Any, step: Step) -> Tree:
    """Carry at the end of a step as a function of the carry at its beginning."""
    system, integrator = parts
    return divided_steps.step(integrator, system, *step.with_restart(system, integrator))[0]


def _interpolation(parts: Any, instant: Instant) -> Tree:
    """State and multipliers within a step as a function of the carries at both ends of the step."""
    (system, integrator), (step, s, end) = parts, instant
    place = integrator, system, *step.with_restart(system, integrator), end, s
    return counted_angles.interpolate(*place), counted_angles.multipliers_within(*place)


def _observation(parts: Any, row: Any) -> Tree:
    """Some leaves of an observation as a function of the state at a time."""
    observer, leaf_numbers = parts
    leaves = jax.tree.leaves(observer(*row))
    return [leaves[k] for k in leaf_numbers]


RUN_MAPS = {
    "start": RunMap(_start, lambda state: (state,), model=1),
    "restart": RunMap(_restart, lambda p: (p.carry,), model=1),
    "step": RunMap(_step, lambda step: (step.carry,)),
    "interpolation": RunMap(_interpolation, lambda instant: (instant.step.carry, instant.end)),
    "observation": RunMap(_observation, lambda row: (row[1],)),
}


def derive_rows(name: str, reverse: bool, parts: Any, places: LeafNumbers, rows: Any, derivatives: Any) -> Any:
    """Derivatives of a map for stacked rows: forward of its output, from those of its parameters and its inputs.

    In reverse it is the other way round. Derivatives of parameters and inputs are a tuple, a list of the first.
    """
    batch = rows, derivatives
    example = jax.tree.map(lambda x: x[0], batch)
    row_map, inputs = find_program(_row_map, parts, example, (name, reverse, places), serialiser=_ROW_MAPS)
    return row_map(inputs[0], batch)


def derive_steps(reverse: bool, parts: Any, places: LeafNumbers, steps: Step, carry: Tree, others: Any) -> Any:
    """Derivatives of consecutive steps, stacked: see `DerivativeLoop` for what it takes and returns."""
    example = jax.tree.map(lambda x: x[0], steps)

    def pattern(inputs: Any) -> NumberPattern:
        return NumberPattern.of(inputs[0], RUN_MAPS["step"].model, places)

    loop, inputs = find_program(_step_loop, parts, example, (reverse, places), serialiser=_STEP_LOOPS, pattern=pattern)
    return loop(inputs[0], steps, carry, others)


def _row_map(inputs: Any, rest: Any) -> RowMap:
    (arrays, (row, derivatives), _), (others, _, (name, reverse, places)) = inputs, rest
    function, wrt = _differentiable(name, others, row, places)
    if reverse:
        return RowMap.vjp(function, wrt, arrays, row, derivatives)
    return RowMap.jvp(function, wrt, arrays, row)


def _step_loop(inputs: Any, rest: Any, pattern: NumberPattern) -> DerivativeLoop:
    (arrays, step, _), (others, _, (reverse, places)) = inputs, rest
    function, wrt = _differentiable("step", others, step, places)
    # Loops take the carry first.
    return DerivativeLoop.of(function, lambda *x: wrt(*x)[::-1], arrays, step, reverse, pattern)


def _differentiable(
    name: str, others: Any, row: Any, places: LeafNumbers
) -> tuple[Callable[[Any, Any], Tree], Callable[[Any, Any], tuple[Any, ...]]]:
    """A map as a function of the arrays of its parts and a row like this one, which returns floats.

    Besides, a function that selects from trees like these what it has derivatives with respect to. `others`: all of
    the parts but arrays.
    """
    run_map = RUN_MAPS[name]
    mask = _float_mask(run_map.inputs(row))

    def function(arrays: Any, row: Any) -> Tree:
        return floats(run_map.function(eqx.combine(arrays, others), row))

    def wrt(arrays: Any, row: Any) -> tuple[Any, ...]:
        leaves = jax.tree.leaves(arrays[run_map.model])
        return [leaves[k] for k in places], *eqx.filter(run_map.inputs(row), mask)

    return function, wrt


def floats(tree: Tree) -> Tree:
    """The floating-point leaves; None in place of all others."""
    return eqx.filter(tree, _float_mask(tree))


def _float_mask(tree: Tree) -> Tree:
    """Whether each leaf of a tree has a derivative, as truth values."""
    return jax.tree.map(lambda x: eqx.is_array(x) and jnp.issubdtype(x.dtype, jnp.floating), tree)


def _on_improved(derivative: Any, write: Callable[[], None]) -> None:
    derivative.code.when_improved = write


_ROW_MAPS: Serialiser[RowMap] = Serialiser(
    dump=lambda row_map: (row_map.code, row_map.out),
    load=lambda state, inputs: RowMap(*state, *inputs[:2]),
    watch=_on_improved,
)

_STEP_LOOPS: Serialiser[DerivativeLoop] = Serialiser(
    dump=lambda loop: (loop.code, loop.reverse, loop.parameters, loop.pattern.codes),
    load=lambda state, inputs: DerivativeLoop(
        state[0], state[1], inputs[0], inputs[1], floats(inputs[1].carry), state[2], NumberPattern(state[3])
    ),
    watch=_on_improved,
)
