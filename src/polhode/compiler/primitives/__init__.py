"""Primitives of traces that back ends lower in their own way: row loops, queries of the back end, implicit solutions.

In: a jaxpr as JAX traced it. Out: a jaxpr with all choices made for one back end. Open first: `lowering.py`.
"""
