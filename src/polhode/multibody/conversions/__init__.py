"""Models as systems of other kinds: Hamiltonian, Lagrangian in redundant or joint coordinates, separable."""
