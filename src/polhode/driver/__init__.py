"""The driver of runs: what is to be run, step by step, on the host and inside JAX transformations."""
