"""Derivatives of recorded scalar programs, forward and reverse.

In: a program. Out: the program of its tangent or adjoint. Open first: `tangent.py`.
"""
