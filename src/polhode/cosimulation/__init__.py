"""Models of polhode beside units of other programs, which exchange values at communication points.

In: a problem, a method, and a functional mock-up unit of FMI. Out: what both have done. Open first: `cosimulate.py`;
`unit.py` reads units, `instances.py` runs them by FMPy, `native_step.py` makes the steps of the problem.
"""
