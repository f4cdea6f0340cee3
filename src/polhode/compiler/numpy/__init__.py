"""Back end for programs that run once: JAX's primitives evaluated by NumPy.

In: a jaxpr. Out: arrays. Open first: `interpreter.py`; `rules.py` lists the primitives.
"""
