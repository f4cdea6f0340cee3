"""Kinds of operations, by the names of their primitives."""

from polhode.compiler.scalars.primitives import SCATTERS

VIEWS = frozenset(
    (
        *("broadcast_in_dim", "reshape", "transpose", "squeeze", "expand_dims", "slice", "rev", "iota"),
        *("concatenate", "stack", "unstack", "split", "stop_gradient", "copy", "copy_p", "optimization_barrier"),
    )
)
"""Operations that are index maps, without computation."""

STANDALONE = frozenset(("while", "scan", "cond", "sort", "elimination", "placed", "scatter", *SCATTERS))
"""Operations that are not fused with others, and work on arrays in memory."""

MAX_UNROLLED_REDUCTION = 16
"""Largest reduction that is unrolled."""
