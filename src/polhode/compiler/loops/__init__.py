"""Compiled loops: blocks of steps, their tangents and adjoints, and maps and scans over rows.

In: a step or the function of a row as a program. Out: machine code that runs it many times without Python in between.
Open first: `step_loop.py`, `scan.py`.
"""
