"""Coefficients of Runge–Kutta methods; each tableau checks its order when it is made.

Open first: `runge_kutta.py`.
"""
