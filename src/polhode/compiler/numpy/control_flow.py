"""Rules of loops and branches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from polhode.compiler.array_program import Equation
from polhode.compiler.numpy.rule import Rule


def _while(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    p = eqn.params
    n, m = p["cond_nconsts"], p["body_nconsts"]
    of_cond, of_body, state = x[:n], x[n : n + m], list(x[n + m :])
    while np.any(active := np.asarray(p["cond_jaxpr"]([*of_cond, *state])[0])):
        after = p["body_jaxpr"]([*of_body, *state])
        state = _where(active, after, state) if active.ndim else after
    return state


def _where(active: np.ndarray, after: Sequence[Any], before: Sequence[Any]) -> list[np.ndarray]:
    """Selects new values for the active members of a batch; the others keep theirs."""
    pairs = zip(map(np.asarray, after), before, strict=True)
    return [np.where(active.reshape(active.shape + (1,) * (y.ndim - active.ndim)), y, x) for y, x in pairs]


def _cond(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    branches = eqn.params["branches"]
    return branches[min(max(int(x[0]), 0), len(branches) - 1)](x[1:])


def _scan(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    p = eqn.params
    n_consts, n_carry, length = p["num_consts"], p["num_carry"], p["length"]
    consts, carry, rows = x[:n_consts], x[n_consts : n_consts + n_carry], x[n_consts + n_carry :]
    shapes = eqn.outputs[n_carry:]
    outputs = [np.zeros(s.shape, s.dtype) for s in shapes]
    for k in range(length - 1, -1, -1) if p["reverse"] else range(length):
        outs = p["jaxpr"]([*consts, *carry, *(row[k] for row in rows)])
        carry = outs[:n_carry]
        for whole, part in zip(outputs, outs[n_carry:], strict=True):
            whole[k] = part
    return [*carry, *outputs]


def _row_map(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """A scan without a carry, whose rows are machine code."""
    count = eqn.params["num_consts"]
    return eqn.params["jaxpr"](x[:count], x[count:])


def _row_scan(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """A scan whose rows are machine code."""
    p = eqn.params
    n, m = p["num_consts"], p["num_consts"] + p["num_carry"]
    return p["jaxpr"](x[:n], x[n:m], x[m:], p["length"], p["reverse"])


def _platform(eqn: Equation, x: list[np.ndarray]) -> Sequence[Any]:
    """The index of the program for this machine: the one for CPUs, or that for all."""
    platforms = eqn.params["platforms"]
    return [next(k for k, names in enumerate(platforms) if names is None or "cpu" in names)]


RULES: dict[str, Rule] = {
    "while": _while,
    "cond": _cond,
    "scan": _scan,
    "mapped": _row_map,
    "swept": _row_scan,
    "platform_index": _platform,
}
"""By the name of the primitive."""
