"""Compiler of the library's functions: JAX traces them once; LLVM, NumPy or XLA run them. Private.

In: a function of arrays and example arguments. Out: a callable with the same values, cached on disk.
Open first: `trace.py` (a function becomes a program on scalars), `llvm/jit.py` (text becomes functions).

What the rest of the library may import (`tests/compiler/test_layers.py`):

- `native_jit`, `numpy_jit`, `numpy.eager`: functions called many times, functions called once, single operations.
- `primitives/`: row loops, queries of the back end and implicit solutions, which each back end lowers in its own way.
- `cache/`, `fingerprint/`: programs on disk and in memory, and their keys.
- `loops/`, `number_pattern`, `compile_report`, `size_limits`, `llvm.types`, `scalars/`: for `polhode.simulation`.

Internal: `jaxprs` (the only reader of JAX's programs), `primitives/lowering` (a jaxpr for one back end), `normaliser`
(a jaxpr as a flat list of operations, `array_program`, without repetitions), `scalars/` (unrolled programs on single
numbers), `arrays/` (fused loops for long arrays, as data: `arrays/array_ir.py`), `autodiff/` (derivatives of programs),
`loops/` (steps, and scans for tangents, adjoints and row maps), and the back ends `llvm/`, `c/`, `numpy/`, `xla/`.
"""
