"""Forward- and reverse-mode derivatives of scalar programs.

In: a program. Out: the program of its tangent or adjoint. Open first: `tangent.py`.
"""
