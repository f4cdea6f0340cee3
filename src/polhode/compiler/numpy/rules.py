"""All rules but those of elementwise primitives, by the name of the primitive."""

from __future__ import annotations

from polhode.compiler.array_program import Equation
from polhode.compiler.numpy import control_flow, data_movement, linear_algebra, reductions
from polhode.compiler.numpy.rule import Rule

RULES: dict[str, Rule] = {**reductions.RULES, **data_movement.RULES, **control_flow.RULES, **linear_algebra.RULES}
"""By the name of the primitive."""


def needs_jax(eqn: Equation) -> bool:
    """Whether an operation is one of the few cases that the rule of its primitive doesn't support."""
    p = eqn.params
    if eqn.name == "scatter":
        return p.get("update_jaxpr") is not None
    if eqn.name == "sort":
        return p["num_keys"] != 1
    if eqn.name == "triangular_solve":
        return not p["left_side"] or p["conjugate_a"]
    return eqn.name == "pad" and any(low < 0 or high < 0 for low, high, _ in p["padding_config"])
