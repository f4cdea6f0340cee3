"""Kinds of operations, by the names of their primitives."""

from polhode.compiler.scalars.primitives import SCATTERS

VIEWS = frozenset(
    (
        *("broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "slice", "rev", "iota"),
        *("concatenate", "stack", "unstack", "split", "stop_gradient", "copy", "copy_p", "optimization_barrier"),
    )
)
"""Operations that only say where elements are."""

STANDALONE = frozenset(("while", "scan", "cond", "sort", "placed", "scatter", *SCATTERS))
"""Operations that are done by themselves, on arrays in memory."""

MAX_UNROLLED_REDUCTION = 16
"""Elements that are reduced to one up to which there is no loop over them."""
