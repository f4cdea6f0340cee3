"""Coordinates of all bodies of a model: absolute ones, or the joint coordinates of a tree.

In: q and v. Out: poses and twists of nodes, the mass matrix, and generalised forces of loads. Open first: `base.py`.
"""
