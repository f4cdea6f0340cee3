"""Rules by which NumPy carries out JAX's primitives."""
