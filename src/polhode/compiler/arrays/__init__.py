"""Compiler of programs on long arrays into fused loops.

In: a jaxpr. Out: a function as data, loop nests over buffers (`array_ir.py`), and machine code from it. Open first:
`array_ir.py`, then `flat_program.py`, `fusion.py` and `codegen.py`, which make such functions, and `llvm_printer.py`,
the only module here that knows LLVM's text. `polhode.compiler.c` prints the same functions in C. `printer.py` has
the interface of both printers.
"""
