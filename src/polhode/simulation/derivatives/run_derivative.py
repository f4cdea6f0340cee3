"""Runs under `jax.grad` and the like with concrete values: machine code for the run and its derivative.

The run keeps checkpoints. The adjoint sweep goes back from checkpoint to checkpoint and repeats the steps between them,
so memory is that of O(√steps) states.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero

from polhode.compiler.fingerprint.closures import captures_tracers, frozen
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.placement import device_array
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import are_known, in_forward_mode, in_reverse_mode, outside_trace, primal_of
from polhode.results.observer import Observer
from polhode.simulation.derivatives.checkpointed_run import CheckpointedRun
from polhode.simulation.derivatives.linear_call import call_linear
from polhode.simulation.derivatives.run_maps import LeafNumbers, Tree, floats
from polhode.simulation.derivatives.sweep import differentiable_part, pull_back, push_forward
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping.segments import Segment
from polhode.simulation.stepping.stepper import Progress
from polhode.systems.base import AbstractSystem

Expression = Callable[[AbstractSystem, Any, Observer], Frames]
"""The frames of a run of some system from some state, as JAX differentiates it."""

Evaluate = Callable[[list[Any]], Tree]
"""The differentiable part of the frames, as a function of the arrays that are differentiated."""


def run(
    segments: Sequence[Segment],
    system: AbstractSystem,
    integrator: AbstractIntegrator,
    state0: Any,
    observer: Observer,
    schedule: SaveSchedule,
    expression: Expression,
) -> tuple[Frames, Progress] | None:
    """The run, with its derivative; None where it has to be an expression of JAX.

    So it is if values are not known, steps can't be machine code, or the run fails. If the derivative can't be machine
    code, it is that of `expression`.
    """
    reverse = in_reverse_mode()
    if not reverse and not in_forward_mode():
        return None
    model = _Model(frozen((system, state0, observer)))
    if not model.is_concrete or any(isinstance(x, Tracer) for x in jax.tree.leaves((integrator, list(segments)))):
        return None
    with outside_trace(), eager_numpy():
        system, state0, observer = model.concrete
        checkpointed = CheckpointedRun.of(segments, integrator, schedule, system, state0, observer)
    if checkpointed is None:
        return None

    def evaluate(values: list[Any]) -> Tree:
        return differentiable_part(expression(*model.whole(values)))

    frames = _to_jax(differentiable_part(checkpointed.frames))
    if model.places:
        derive = _in_reverse if reverse else _in_forward
        frames = derive(checkpointed, model, frames, evaluate)(model.traced)
    t, (state, (outputs, invariants, residuals), multipliers) = _to_jax(checkpointed.frames.t), frames
    return Frames(t, state, outputs, invariants, residuals, multipliers), checkpointed.p


class _Model:
    """System, initial state and observer, of which some arrays are differentiated.

    - `places`: where those are among all arrays. - `traced`: themselves, as JAX traces them; `values` without.
    - `concrete`: system, initial state and observer, with these values.
    - `is_concrete`: whether all values are known, and functions capture none of what is differentiated.
    """

    def __init__(self, parts: Any) -> None:
        arrays, self._rest = eqx.partition(parts, eqx.is_array)
        leaves, self._structure = jax.tree.flatten(arrays)
        # Derivatives can also be with respect to plain numbers, which would be no arrays any more.
        self._leaves = [x if eqx.is_array(x) else np.asarray(x) for x in map(primal_of, leaves)]
        self.places: LeafNumbers = tuple(k for k, x in enumerate(leaves) if isinstance(x, Tracer))
        self.traced, self.values = ([x[k] for k in self.places] for x in (leaves, self._leaves))
        self.concrete = self.whole(self.values)
        only_floats = len(jax.tree.leaves(floats(self.concrete[1]))) == len(jax.tree.leaves(self.concrete[1]))
        right = all(not isinstance(x, Tracer) for x in self._leaves) and all(x.dtype == float for x in self.values)
        # What functions capture is a constant of programs once its value is known.
        current = frozen(self.concrete)
        has_captured = len(jax.tree.leaves(eqx.filter(current, eqx.is_array))) != len(leaves)
        self.is_concrete = right and only_floats and not has_captured and not captures_tracers(current)

    def whole(self, values: Sequence[Any]) -> tuple[AbstractSystem, Any, Observer]:
        """All with other values at the places."""
        leaves = list(self._leaves)
        for k, value in zip(self.places, values, strict=True):
            leaves[k] = value
        return eqx.combine(jax.tree.unflatten(self._structure, leaves), self._rest)


def _in_reverse(run: CheckpointedRun, model: _Model, frames: Tree, evaluate: Evaluate) -> Evaluate:
    """The frames of a run as a function of the model's arrays that JAX can differentiate in reverse mode."""

    @jax.custom_vjp
    def through(values: list[Any]) -> Tree:
        return evaluate(values)

    def forth(values: list[Any]) -> tuple[Tree, None]:
        return frames, None

    def back(_: None, cotangents: Any) -> tuple[list[Any]]:
        leaves = jax.tree.leaves(cotangents, is_leaf=lambda x: isinstance(x, SymbolicZero))
        there = {k: x for k, x in enumerate(leaves) if not isinstance(x, SymbolicZero) and x.dtype == float}

        def pull(cotangents: list[Any]) -> list[np.ndarray]:
            return pull_back(run, model.places, dict(zip(there, cotangents, strict=True)))

        if are_known(there.values()):
            with contextlib.suppress(UnsupportedNativeOperation):
                return (call_linear(pull, [*there.values()]),)
        outs, pull_expression = jax.vjp(evaluate, model.values)
        outs, structure = jax.tree.flatten(outs)
        return pull_expression(jax.tree.unflatten(structure, [there.get(k, _zero(x)) for k, x in enumerate(outs)]))

    through.defvjp(forth, back, symbolic_zeros=True)
    return through


def _in_forward(run: CheckpointedRun, model: _Model, frames: Tree, evaluate: Evaluate) -> Evaluate:
    """The same in forward mode."""

    @jax.custom_jvp
    def through(values: list[Any]) -> Tree:
        return frames

    @through.defjvp
    def push(primals: tuple[list[Any]], tangents: tuple[list[Any]]) -> tuple[Tree, Tree]:
        (directions,) = tangents
        leaves, structure = jax.tree.flatten(frames)
        if are_known(directions):
            with contextlib.suppress(UnsupportedNativeOperation):
                dots = iter(call_linear(functools.partial(push_forward, run, model.places), directions))
                all_dots = [next(dots) if x.dtype == float else _zero(x) for x in leaves]
                return frames, jax.tree.unflatten(structure, all_dots)
        return jax.jvp(evaluate, primals, tangents)

    return through


def _to_jax(tree: Any) -> Any:
    """Arrays of JAX."""
    return jax.tree.map(lambda x: device_array(np.asarray(x)), tree)


def _zero(x: Any) -> Any:
    return np.zeros(x.shape, x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jax.dtypes.float0)
