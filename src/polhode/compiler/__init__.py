"""How programs are run: traced by JAX once, then machine code by LLVM, NumPy calls, or XLA. Private.

In: a function of arrays and example arguments. Out: a callable that computes the same, and where it lives on disk.
Open first: `trace.py` (a function becomes a program on scalars), `llvm/jit.py` (text becomes functions).

What the rest of the library may import (`tests/compiler/test_layers.py`):

- `native_jit`, `numpy_jit`, `numpy.eager`: functions called again, functions called once, single operations.
- `primitives/`: row loops, questions to the back end and implicit solutions, which each back end lowers in its own way.
- `cache/`, `fingerprint/`: programs on disk and in memory, and the keys by which they are found.
- `loops/`, `compile_report`, `size_limits`, `llvm.types`, `scalars/`: for `polhode.simulation`.

Behind that: `jaxprs` (the one reader of JAX's programs), `primitives/lowering` (a jaxpr for one back end), `scalars/`
(unrolled programs on single numbers), `arrays/` (fused loops for long arrays), `autodiff/` (derivatives of programs),
`loops/` (steps, tangents, adjoints and row maps as loops), and the back ends `llvm/`, `numpy/`, `xla/`.
"""
