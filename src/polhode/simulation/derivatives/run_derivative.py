"""Runs under `jax.grad` and the like with concrete values: machine code for the run and its derivative.

The run keeps checkpoints. The adjoint sweep goes back from checkpoint to checkpoint and repeats the steps between them,
so memory is that of O(√steps) states.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp
import numpy as np
from jax.core import Tracer
from jax.custom_derivatives import SymbolicZero

from polhode.compiler.fingerprint.closures import frozen
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.numpy.eager import eager_numpy
from polhode.compiler.placement import device_array
from polhode.frames import Frames
from polhode.integrators.base import AbstractIntegrator
from polhode.jax_context import are_known, in_forward_mode, in_reverse_mode, outside_trace, primal_of
from polhode.results.observer import Observation, Observer
from polhode.simulation.derivatives.adjoint_sweep import AdjointSweep
from polhode.simulation.derivatives.checkpointed_run import CheckpointedRun
from polhode.simulation.derivatives.differentiable_maps import LeafNumbers, floats
from polhode.simulation.derivatives.linear_call import call_linear
from polhode.simulation.derivatives.tangent_sweep import TangentSweep
from polhode.simulation.save_schedule import SaveSchedule
from polhode.simulation.stepping.segments import Segment
from polhode.simulation.stepping.stepper import Progress
from polhode.systems.base import AbstractSystem

Expression = Callable[[AbstractSystem, Any, Observer], Frames]
"""The frames of a run of some system from some state, as JAX differentiates it."""


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
    values = _to_jax(_differentiable_part(checkpointed.frames))
    derive = _in_reverse if reverse else _in_forward
    state, observation, multipliers = derive(checkpointed, model, expression)(model.traced) if model.places else values
    t, (outputs, invariants, residuals) = _to_jax(checkpointed.frames.t), observation
    return Frames(t, state, outputs, invariants, residuals, multipliers), checkpointed.p


class _Model:
    """System, initial state and observer, of which some arrays are differentiated.

    - `places`: where those are among all arrays. - `moving`: themselves, with derivatives; `values` without.
    - `is_known`: whether nothing else about them is unknown, and functions capture none of what is differentiated.
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
        has_captured = len(jax.tree.leaves(eqx.filter(frozen(self.concrete), eqx.is_array))) != len(leaves)
        self.is_concrete = right and only_floats and not has_captured

    def whole(self, values: Sequence[Any]) -> tuple[AbstractSystem, Any, Observer]:
        """All with other values at the places."""
        leaves = list(self._leaves)
        for k, value in zip(self.places, values, strict=True):
            leaves[k] = value
        return eqx.combine(jax.tree.unflatten(self._structure, leaves), self._rest)


def _differentiable_part(frames: Frames) -> tuple[Any, Observation, Any]:
    """The parts of frames that have derivatives."""
    return frames.state, Observation(frames.outputs, frames.invariants, frames.residuals), frames.multipliers


def _in_reverse(run: CheckpointedRun, model: _Model, expression: Expression) -> Callable[[list[Any]], Any]:
    """A run as a function of the model's arrays that JAX can differentiate in reverse mode."""

    def evaluate(values: list[Any]) -> Any:
        return _differentiable_part(expression(*model.whole(values)))

    @jax.custom_vjp
    def through(values: list[Any]) -> Any:
        return evaluate(values)

    def forth(values: list[Any]) -> tuple[Any, None]:
        return _to_jax(_differentiable_part(run.frames)), None

    def back(_: None, cotangents: Any) -> tuple[list[Any]]:
        leaves = jax.tree.leaves(cotangents, is_leaf=lambda x: isinstance(x, SymbolicZero))
        there = {k: x for k, x in enumerate(leaves) if not isinstance(x, SymbolicZero) and x.dtype == float}
        if are_known(there.values()):
            with contextlib.suppress(UnsupportedNativeOperation):
                return (call_linear(lambda values: _cotangents(run, model.places, there, values), [*there.values()]),)
        outs, pull = jax.vjp(evaluate, model.values)
        outs, structure = jax.tree.flatten(outs)
        return pull(jax.tree.unflatten(structure, [there.get(k, _zero(x)) for k, x in enumerate(outs)]))

    through.defvjp(forth, back, symbolic_zeros=True)
    return through


def _in_forward(run: CheckpointedRun, model: _Model, expression: Expression) -> Callable[[list[Any]], Any]:
    """The same in forward mode."""
    primal_out = _to_jax(_differentiable_part(run.frames))

    @jax.custom_jvp
    def through(values: list[Any]) -> Any:
        return primal_out

    @through.defjvp
    def push(primals: tuple[list[Any]], tangents: tuple[list[Any]]) -> tuple[Any, Any]:
        (directions,) = tangents
        leaves, structure = jax.tree.flatten(primal_out)
        is_float = [x.dtype == float for x in leaves]
        if are_known(directions):
            with contextlib.suppress(UnsupportedNativeOperation):
                tangents_out = iter(call_linear(lambda values: _tangents(run, model.places, values), directions))
                dots = [next(tangents_out) if moves else _zero(x) for x, moves in zip(leaves, is_float, strict=True)]
                return primal_out, jax.tree.unflatten(structure, dots)
        return jax.jvp(lambda values: _differentiable_part(expression(*model.whole(values))), primals, tangents)

    return through


def _tangents(run: CheckpointedRun, places: LeafNumbers, directions: list[Any]) -> list[Any]:
    """From directions to derivatives of all leaves of what moves that are floats."""
    states, observation, multipliers = TangentSweep(run, places)(directions)
    leaves = [*jax.tree.leaves(states), *observation, *jax.tree.leaves(multipliers)]
    like = jax.tree.leaves(_differentiable_part(run.frames))
    return [x for x, frame in zip(leaves, like, strict=True) if frame.dtype == float]


def _cotangents(run: CheckpointedRun, places: LeafNumbers, leaves: Iterable[int], values: list[Any]) -> list[Any]:
    """From derivatives with respect to some leaves of what moves to those with respect to the model's arrays."""
    cotangents = dict(zip(leaves, values, strict=True))
    state, observation, multipliers = (len(jax.tree.leaves(part)) for part in _differentiable_part(run.frames))
    given_cotangents = [cotangents.get(k) for k in range(state + observation + multipliers)]
    of_multipliers = given_cotangents[-1] if multipliers else None
    results = AdjointSweep(run, places)(
        given_cotangents[:state], given_cotangents[state : state + observation], of_multipliers
    )
    return [np.asarray(x) for x in results]


def _to_jax(tree: Any) -> Any:
    """Arrays of JAX."""
    return jax.tree.map(lambda x: device_array(np.asarray(x)), tree)


def _zero(x: Any) -> Any:
    return np.zeros(x.shape, x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jax.dtypes.float0)
