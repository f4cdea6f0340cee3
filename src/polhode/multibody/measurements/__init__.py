"""Measurements in states by name: joints, forces, poses of bodies, joint loads, balances.

In: a state of a multibody system. Out: physical values. Open first: `joints.py`.
"""
