"""How programs are run: recorded once, and carried out as machine code, by NumPy, or by XLA.

The interface, which the rest of the library imports and nothing else (`tests/execution/test_layers.py`):

- `once`, `eager`, `repeated`: programs that aren't worth compiling, and those that are called again.
- `rows`, `questions`: operations of a trace that each back end runs in its own way.
- `kept`, `remembering`, `placement`: files that later processes find, and where arrays are.
- `derivatives.solutions`: solutions of equations, for methods that search for them.
- For the driver: `marching`, `mapping`, `following`, `returning`, with `reports` of what was compiled,
  `literals.NotNative` where nothing can be, and `scalars` and `limits` for what XLA compiles instead.

Behind it:

- `settling`: a finished trace for one back end.
- `scalars`: a recorded program as a graph of operations on single numbers.
- `arrays`: the same for long arrays, as loops over their elements.
- `derivatives`: taken on such graphs.
- `recording`, `writer`, `machine`: from the record to machine code.
- `listing`, `sweeping`: from the trace to operations of NumPy, with machine code for long loops.
- `limits`: how large a program may be for each of these.
"""
