"""Data-dependent writes."""

from __future__ import annotations

import numpy as np

from polhode.compiler.array_program import Equation
from polhode.compiler.arrays.array_ir import If, Index, Place, Scalar
from polhode.compiler.arrays.block_builder import TRUTH, BlockBuilder
from polhode.compiler.arrays.elementwise import window_start
from polhode.compiler.arrays.operands import AbstractArray, Buffer
from polhode.compiler.llvm.types import UnsupportedNativeOperation
from polhode.compiler.scalars.primitives import SCATTERS
from polhode.compiler.scalars.program import Variable

_OF_SCATTER = "scatter_dims_to_operand_dims", "operand_batching_dims", "scatter_indices_batching_dims"


def scatter(k: BlockBuilder, e: Equation, to: Buffer, indices: AbstractArray, updates: AbstractArray) -> None:
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
        fits = None if clips else _all_equal(k, begins, inside)
        with k.inside() as block:
            _put(k, e.name, to, tuple(at), value)
        k.block += block if fits is None else [If(fits, block)]


def _put(k: BlockBuilder, name: str, to: Buffer, place: Place, value: Scalar) -> None:
    if name in SCATTERS:
        with k.scope():
            before = to.at(k, place)
        value = k.apply(SCATTERS[name], to.dtype, before, value)
    to.put(k, place, value)


def _all_equal(k: BlockBuilder, begins: list[Index], inside: list[Index]) -> Scalar:
    condition: Scalar = np.bool_(True)
    for b, c in zip(begins, inside, strict=True):
        if not (isinstance(b, int) and isinstance(c, int) and b == c):
            here = k.apply("eq", TRUTH, b, c)
            condition = k.apply("and", TRUTH, condition, here) if isinstance(condition, Variable) else here
    return condition
