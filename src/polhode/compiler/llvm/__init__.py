"""Back end for machine code: text of LLVM's intermediate representation and its just-in-time compilation.

In: programs of `scalars` or `arrays`. Out: functions of this process. Open first: `ir_builder.py`, then `jit.py`.
"""
