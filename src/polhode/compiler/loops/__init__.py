"""Compiled loops: blocks of steps, their tangents and adjoints, and maps and scans over rows.

In: a step or the function of a row as a program. Out: machine code that runs it many times without Python in between.
Open first: `step_loop.py`, `scan.py`; both loops are in the IR of arrays, around programs on scalars or on arrays
(`loop_code.py`). `simd_step_loop.py` prints LLVM by itself, since the IR has no vectors and masks.
"""
