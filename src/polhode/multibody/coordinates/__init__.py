"""Coordinates of all bodies of a model: absolute ones, the joint coordinates of a tree, or both.

In: q and v. Out: poses and twists of nodes, the mass matrix, and generalised forces of loads. Open first: `base.py`.
"""
