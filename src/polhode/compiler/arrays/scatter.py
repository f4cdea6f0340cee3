"""Data-dependent writes."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from polhode.compiler.arrays.elementwise import window_start
from polhode.compiler.arrays.flat_program import Equation
from polhode.compiler.arrays.loop_nest import Index, LoopNest
from polhode.compiler.arrays.operands import AbstractArray, Buffer, Place
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.scalars.primitives import SCATTERS
from polhode.compiler.scalars.program import Operation

_OF_SCATTER = "scatter_dims_to_operand_dims", "operand_batching_dims", "scatter_indices_batching_dims"


def scatter(k: LoopNest, e: Equation, to: Buffer, indices: AbstractArray, updates: AbstractArray) -> None:
    """Applies the updates to `to`, one after the other; windows that aren't inside are skipped."""
    if e.name == "scatter" and e.params.get("update_jaxpr") is not None:
        raise UnsupportedNativeOperation(e.name)
    dims, clips = e.params["dimension_numbers"], "CLIP" in str(e.params["mode"]).upper()
    of_window = dims.update_window_dims
    window = [d for d in range(len(to.shape)) if d not in (*dims.inserted_window_dims, *dims.operand_batching_dims)]
    sizes = dict(zip(window, (updates.shape[of] for of in of_window), strict=True))
    with k.nest(updates.shape) as place:
        batch = tuple(p for d, p in enumerate(place) if d not in of_window)
        begins = window_start(k, dims, _OF_SCATTER, indices, batch, len(to.shape))
        inside = [k.clamp(b, to.shape[d] - sizes.get(d, 1) + 1) for d, b in enumerate(begins)]
        value, at = updates.at(k, place), list(inside)
        for d, of in zip(window, of_window, strict=True):
            at[d] = k.plus(inside[d], place[of])
        with contextlib.nullcontext() if clips else _where(k, _all_equal(k, begins, inside)):
            _put(k, e.name, to, tuple(at), value)


@contextlib.contextmanager
def _where(k: LoopNest, condition: str) -> Iterator[None]:
    """Statements that are executed only if the condition holds."""
    inside, after = k.w.label(), k.w.label()
    k.w.branch(condition, inside, after)
    k.w.open(inside)
    yield
    k.w.jump(after)
    k.w.open(after)


def _put(k: LoopNest, name: str, to: Buffer, place: Place, value: str) -> None:
    if name in SCATTERS:
        with k.scope():
            before = to.at(k, place)
        (value,) = k.w.apply(Operation(SCATTERS[name], {}, [to, to], [to]), [before, value])  # type: ignore[list-item]
    to.put(k, place, value)


def _all_equal(k: LoopNest, begins: list[Index], inside: list[Index]) -> str:
    condition = "true"
    for b, c in zip(begins, inside, strict=True):
        if not (isinstance(b, int) and isinstance(c, int) and b == c):
            here = k.w.value(f"icmp eq i64 {b}, {c}")
            condition = here if condition == "true" else k.w.value(f"and i1 {condition}, {here}")
    return condition
