"""How programs are run: recorded once, and carried out as machine code, by NumPy, or by XLA.

- `scalars`: a recorded program as a graph of operations on single numbers.
- `arrays`: the same for long arrays, as loops over their elements.
- `derivatives`: taken on such graphs.
- `rows`: loops over equal elements, as models write them.
- `recording`, `writer`, `machine`, `kept`: from the record to machine code, and to files that later processes find.
- `marching`, `mapping`, `following`, `returning`: what runs call.
- `once`, `eager`, `repeated`: what isn't worth compiling, and what is called again.
"""
