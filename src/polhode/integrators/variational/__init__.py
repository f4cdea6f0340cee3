"""Variational and symplectic methods, and compositions of them.

Open first: `rattle.py`.
"""
