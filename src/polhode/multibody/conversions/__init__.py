"""Models as systems of other kinds: Hamiltonian, Lagrangian in redundant or joint coordinates, separable.

In: a `MultibodySystem`. Out: a system that other methods take. Open first: `livens.py`.
"""
