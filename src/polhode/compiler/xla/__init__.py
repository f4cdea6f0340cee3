"""Back end for XLA: programs on scalars as JAX expressions, for accelerators and inside the user's own jit.

In: a function of arrays. Out: one that XLA compiles well. Open first: `entry_points.py`.
"""
