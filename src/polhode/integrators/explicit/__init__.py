"""Explicit methods: Runge–Kutta on Lie groups, commutator-free, and half-explicit ones for constraints.

Open first: `rkmk.py`.
"""
