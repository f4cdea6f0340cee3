"""Back end for other compilers: programs as text in C99.

In: a function of `arrays.array_ir`, with the operations of `scalars`. Out: the text of one file, which needs nothing
but `math.h`, allocates nothing and has no state. Open first: `array_printer.py`, then `expressions.py`.

Results are those of machine code to the last bit with the same C library, if the compiler keeps to IEEE 754 (with gcc
and clang: `-ffp-contract=off`, no `-ffast-math`).
"""
