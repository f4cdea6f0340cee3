"""The step of a run outside of Python: C, and shared libraries that the C compiler makes of it.

In: a problem, a method and a constant step. Out: a file in C with its header, or a library. Open first:
`export_code.py`; `exported_step.py` records the functions, `library.py` writes the file around them.
"""
