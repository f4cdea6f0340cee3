"""Derivatives of whole runs, forward and reverse, from checkpoints of the steps.

In: a run and tangents or cotangents of its frames. Out: those of its start and parameters. Open first:
`run_derivative.py`, then `differentiable_maps.py`: the maps a run is composed of.
"""
