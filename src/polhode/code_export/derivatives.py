"""Derivatives of a step with respect to parameters, inputs and all that is kept between steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import equinox as eqx
import jax
import jax.numpy as jnp

from polhode.code_export.free_numbers import FreeNumbers, Values
from polhode.compiler.loops.single_call import SingleCall

DIRECTIONS = ("along", "back")
"""Forward: how what follows changes along a change of what is before. Reverse: the gradient before from that after."""


def step_derivatives(
    directions: Sequence[str], step: Callable[[Values, Any], Any], free: FreeNumbers, carry: Any, method: str
) -> dict[str, SingleCall]:
    """The derivatives of a step, recorded by their direction.

    `step`: from parameters and inputs, and the carry, to the next carry. Numbers of a carry that are no floats have no
    derivative, and zeros in its place. Raises ValueError where JAX can't differentiate the step of the method.
    """
    make = {"along": _along, "back": _back}
    calls = {}
    for direction in directions:
        try:
            calls[direction] = make[direction](step, free.defaults, carry)
        except (TypeError, ValueError, NotImplementedError) as error:
            reason = next(iter(str(error).splitlines()), type(error).__name__)
            raise ValueError(
                f"The step of `{method}` has no derivative {direction}: {reason} Leave {direction!r} out of "
                "`derivatives`, or take another method."
            ) from error
    return calls


def _along(step: Callable[[Values, Any], Any], defaults: Values, carry: Any) -> SingleCall:
    def along(parameters: Any, inputs: Any, carry: Any, d_parameters: Any, d_inputs: Any, d_carry: Any) -> Any:
        floats, others = _parts(carry)
        function = _on_floats(step, others)
        values, directions = (parameters, inputs), (d_parameters, d_inputs)
        _, change = jax.jvp(function, (values, floats), (directions, _parts(d_carry)[0]))
        return _whole(change, others)

    parameters, inputs = defaults
    same = {"d_parameters": parameters, "d_inputs": inputs, "d_carry": carry}
    return SingleCall.of(along, parameters=parameters, inputs=inputs, carry=carry, **same)


def _back(step: Callable[[Values, Any], Any], defaults: Values, carry: Any) -> SingleCall:
    def back(parameters: Any, inputs: Any, carry: Any, d_next: Any) -> Any:
        floats, others = _parts(carry)
        _, pull = jax.vjp(_on_floats(step, others), (parameters, inputs), floats)
        gradients, before = pull(_parts(d_next)[0])
        return (*gradients, _whole(before, others))

    parameters, inputs = defaults
    return SingleCall.of(back, parameters=parameters, inputs=inputs, carry=carry, d_next=carry)


def _parts(carry: Any) -> tuple[Any, Any]:
    """Floats and other numbers."""
    return eqx.partition(carry, eqx.is_inexact_array)


def _on_floats(step: Callable[[Values, Any], Any], others: Any) -> Callable[[Values, Any], Any]:
    return lambda values, floats: _parts(step(values, eqx.combine(floats, others)))[0]


def _whole(floats: Any, others: Any) -> Any:
    return eqx.combine(floats, jax.tree.map(jnp.zeros_like, others))
