"""Compiler of programs on long arrays into fused loops.

In: a jaxpr. Out: LLVM IR as text. Open first: `flat_program.py`,
then `fusion.py` and `codegen.py`.
"""
