"""Which arguments of a program are arrays that it only looks up in."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias, cast

from jax.extend import core

from polhode.compiler.jaxprs import callee, parameters
from polhode.compiler.scalars.array_view import SELECTED, VIEWS

_SMALL = 64
"""Numbers of a part of an array that may be read one by one: values of a table for all joints of a robot."""

Origins: TypeAlias = Mapping[Any, frozenset[int]]
"""For variables that are views of arguments, the numbers of these."""


def read_only(jaxpr: core.Jaxpr) -> list[bool]:
    """Which arguments are arrays of which a program reads elements, or small parts."""
    sizes = [math.prod(cast(Any, v.aval).shape) for v in jaxpr.invars]
    large = {v: frozenset([k]) for k, v in enumerate(jaxpr.invars) if sizes[k] > SELECTED}
    others: set[int] = set()
    if large:
        views = _follow(jaxpr, large, others)
        others.update(k for v in jaxpr.outvars if not _is_small(v) for k in views.get(v, ()))
    return [v in large and k not in others for k, v in enumerate(jaxpr.invars)]


def views_of(jaxpr: core.Jaxpr, arguments: Sequence[bool]) -> frozenset[Any]:
    """The variables of a program that are views of some of its arguments."""
    marked = {v: frozenset([0]) for v, k in zip(jaxpr.invars, arguments, strict=False) if k}
    return frozenset(_follow(jaxpr, marked, set()) if marked else ())


def _follow(jaxpr: core.Jaxpr, arguments: Origins, others: set[int]) -> Origins:
    """The views of arguments in a program; `others` receives the arguments that it does something else with."""
    views = dict(arguments)
    for eqn in jaxpr.eqns:
        operands = [() if isinstance(x, core.Literal) else views.get(x, ()) for x in eqn.invars]
        if not any(operands):
            continue
        name, origins = eqn.primitive.name, frozenset(k for operand in operands for k in operand)
        if name in ("gather", "dynamic_slice"):
            others.update(k for operand in operands[1:] for k in operand)
        if name == "gather":
            # Few numbers for each of a batch of indices.
            if not _is_small(eqn.outvars[0], cast(Any, eqn.invars[1].aval).shape[:-1]):
                others.update(origins)
        elif name == "dynamic_slice" or (name in VIEWS and all(operands)):
            views[eqn.outvars[0]] = origins
        else:
            _follow_inside(eqn, operands, views, others)
    return views


def _follow_inside(eqn: Any, operands: Sequence[Any], views: dict[Any, frozenset[int]], others: set[int]) -> None:
    """The same for the programs inside an operation; calls may return views."""
    call, passed = callee(eqn), set()
    for inner, numbers in programs_inside(eqn):
        arguments = {
            v: operands[n] for v, n in zip(inner.invars, numbers, strict=True) if n is not None and operands[n]
        }
        passed.update(n for n in numbers if n is not None)
        inside = _follow(inner, arguments, others)
        for v, out in zip(inner.outvars, eqn.outvars, strict=False):
            origins = frozenset() if isinstance(v, core.Literal) else inside.get(v, frozenset())
            if call is None:
                others.update(() if _is_small(out) else origins)
            elif origins:
                views[out] = origins
    direct = (operand for n, operand in enumerate(operands) if n not in passed and not _is_small(eqn.invars[n]))
    others.update(k for operand in direct for k in operand)


def programs_inside(eqn: Any) -> list[tuple[core.Jaxpr, list[int | None]]]:
    """The programs inside an operation, and for each argument which operand it is; None where it varies."""
    call = callee(eqn)
    if call is not None:
        return [(call[0], list(range(len(eqn.invars))))]
    name, p = eqn.primitive.name, parameters(eqn)
    if name == "while":
        nc, nb = p["cond_nconsts"], p["body_nconsts"]
        parts = (p["cond_jaxpr"].jaxpr, range(nc)), (p["body_jaxpr"].jaxpr, range(nc, nc + nb))
        return [(part, [*consts, *[None] * (len(part.invars) - len(consts))]) for part, consts in parts]
    if name == "scan":
        n, m = p["num_consts"], p["num_carry"]
        numbers = [None if n <= k < n + m else k for k in range(len(eqn.invars))]
        return [(p["jaxpr"].jaxpr, numbers)]
    if name == "cond":
        return [(branch.jaxpr, list(range(1, len(eqn.invars)))) for branch in p["branches"]]
    return []


def rows_of(eqn: Any) -> range:
    """Which operands of a scan are rows, of which its body takes one after the other; none of other operations."""
    if eqn.primitive.name != "scan":
        return range(0)
    p = parameters(eqn)
    return range(p["num_consts"] + p["num_carry"], len(eqn.invars))


def _is_small(x: Any, batch: tuple[int, ...] = ()) -> bool:
    return math.prod(x.aval.shape) <= _SMALL * math.prod(batch)
