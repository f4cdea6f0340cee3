"""Runs under `jax.grad` and the like, where values are known: machine code there and back.

The run is made like any other, and every so many steps is marked where it stands. Its transposed derivative goes back
from mark to mark, and makes the steps between again. So memory is that of O(√steps) states.
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
    if not model.is_known or any(isinstance(x, Tracer) for x in jax.tree.leaves((integrator, list(segments)))):
        return None
    with outside_trace(), eager_numpy():
        system, state0, observer = model.known
        made = CheckpointedRun.of(segments, integrator, schedule, system, state0, observer)
    if made is None:
        return None
    known = _to_jax(_differentiable_part(made.frames))
    derive = _in_reverse if reverse else _in_forward
    state, seen, multipliers = derive(made, model, expression)(model.moving) if model.places else known
    t, (outputs, invariants, residuals) = _to_jax(made.frames.t), seen
    return Frames(t, state, outputs, invariants, residuals, multipliers), made.p


class _Model:
    """System, initial state and observer, of which some arrays are differentiated.

    - `places`: where those are among all arrays. - `moving`: themselves, with derivatives; `values` without.
    - `is_known`: whether nothing else about them is unknown, and functions capture none of what is differentiated.
    """

    def __init__(self, given: Any) -> None:
        arrays, self._rest = eqx.partition(given, eqx.is_array)
        leaves, self._structure = jax.tree.flatten(arrays)
        # Derivatives can also be with respect to plain numbers, which would be no arrays any more.
        self._leaves = [x if eqx.is_array(x) else np.asarray(x) for x in map(primal_of, leaves)]
        self.places: LeafNumbers = tuple(k for k, x in enumerate(leaves) if isinstance(x, Tracer))
        self.moving, self.values = ([x[k] for k in self.places] for x in (leaves, self._leaves))
        self.known = self.whole(self.values)
        only_floats = len(jax.tree.leaves(floats(self.known[1]))) == len(jax.tree.leaves(self.known[1]))
        right = all(not isinstance(x, Tracer) for x in self._leaves) and all(x.dtype == float for x in self.values)
        # What functions capture is a constant of programs once its value is known.
        captured = len(jax.tree.leaves(eqx.filter(frozen(self.known), eqx.is_array))) != len(leaves)
        self.is_known = right and only_floats and not captured

    def whole(self, values: Sequence[Any]) -> tuple[AbstractSystem, Any, Observer]:
        """All with other values at the places."""
        leaves = list(self._leaves)
        for k, value in zip(self.places, values, strict=True):
            leaves[k] = value
        return eqx.combine(jax.tree.unflatten(self._structure, leaves), self._rest)


def _differentiable_part(frames: Frames) -> tuple[Any, Observation, Any]:
    """The parts of frames that have derivatives."""
    return frames.state, Observation(frames.outputs, frames.invariants, frames.residuals), frames.multipliers


def _in_reverse(made: CheckpointedRun, model: _Model, expression: Expression) -> Callable[[list[Any]], Any]:
    """A run as a function of the model's arrays that JAX can differentiate in reverse mode."""

    def expressed(values: list[Any]) -> Any:
        return _differentiable_part(expression(*model.whole(values)))

    @jax.custom_vjp
    def through(values: list[Any]) -> Any:
        return expressed(values)

    def forth(values: list[Any]) -> tuple[Any, None]:
        return _to_jax(_differentiable_part(made.frames)), None

    def back(_: None, given: Any) -> tuple[list[Any]]:
        leaves = jax.tree.leaves(given, is_leaf=lambda x: isinstance(x, SymbolicZero))
        there = {k: x for k, x in enumerate(leaves) if not isinstance(x, SymbolicZero) and x.dtype == float}
        if are_known(there.values()):
            with contextlib.suppress(UnsupportedNativeOperation):
                return (call_linear(lambda values: _cotangents(made, model.places, there, values), [*there.values()]),)
        outs, pull = jax.vjp(expressed, model.values)
        outs, structure = jax.tree.flatten(outs)
        return pull(jax.tree.unflatten(structure, [there.get(k, _zero(x)) for k, x in enumerate(outs)]))

    through.defvjp(forth, back, symbolic_zeros=True)
    return through


def _in_forward(made: CheckpointedRun, model: _Model, expression: Expression) -> Callable[[list[Any]], Any]:
    """The same in forward mode."""
    known = _to_jax(_differentiable_part(made.frames))

    @jax.custom_jvp
    def through(values: list[Any]) -> Any:
        return known

    @through.defjvp
    def push(primals: tuple[list[Any]], tangents: tuple[list[Any]]) -> tuple[Any, Any]:
        (directions,) = tangents
        leaves, structure = jax.tree.flatten(known)
        floating = [x.dtype == float for x in leaves]
        if are_known(directions):
            with contextlib.suppress(UnsupportedNativeOperation):
                found = iter(call_linear(lambda values: _tangents(made, model.places, values), directions))
                dots = [next(found) if moves else _zero(x) for x, moves in zip(leaves, floating, strict=True)]
                return known, jax.tree.unflatten(structure, dots)
        return jax.jvp(lambda values: _differentiable_part(expression(*model.whole(values))), primals, tangents)

    return through


def _tangents(made: CheckpointedRun, places: LeafNumbers, directions: list[Any]) -> list[Any]:
    """From directions to derivatives of all leaves of what moves that are floats."""
    states, seen, multipliers = TangentSweep(made, places)(directions)
    leaves = [*jax.tree.leaves(states), *seen, *jax.tree.leaves(multipliers)]
    like = jax.tree.leaves(_differentiable_part(made.frames))
    return [x for x, frame in zip(leaves, like, strict=True) if frame.dtype == float]


def _cotangents(made: CheckpointedRun, places: LeafNumbers, leaves: Iterable[int], values: list[Any]) -> list[Any]:
    """From derivatives with respect to some leaves of what moves to those with respect to the model's arrays."""
    cotangents = dict(zip(leaves, values, strict=True))
    state, seen, multipliers = (len(jax.tree.leaves(part)) for part in _differentiable_part(made.frames))
    told = [cotangents.get(k) for k in range(state + seen + multipliers)]
    of_multipliers = told[-1] if multipliers else None
    found = AdjointSweep(made, places)(told[:state], told[state : state + seen], of_multipliers)
    return [np.asarray(x) for x in found]


def _to_jax(tree: Any) -> Any:
    """Arrays of JAX."""
    return jax.tree.map(lambda x: device_array(np.asarray(x)), tree)


def _zero(x: Any) -> Any:
    return np.zeros(x.shape, x.dtype if jnp.issubdtype(x.dtype, jnp.inexact) else jax.dtypes.float0)
