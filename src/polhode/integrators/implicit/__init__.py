"""Implicit methods: generalized-α, backward differentiation, the midpoint rule, and the Newton iterations they share.

Open first: `generalized_alpha.py`.
"""
