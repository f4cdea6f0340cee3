"""Programs on long arrays as fused loops in machine code.

In: a jaxpr. Out: text of LLVM's intermediate representation. Open first: `flat_program.py`,
then `fusion.py` and `codegen.py`.
"""
