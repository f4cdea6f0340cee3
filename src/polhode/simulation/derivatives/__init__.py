"""Derivatives of whole runs, forward and reverse, from checkpoints of the steps.

In: a run and tangents or cotangents of its frames. Out: those of its start and parameters. Open first:
`run_derivative.py`, then `run_maps.py`: the five maps a run is composed of, and `sweep.py`: a sweep along them.
"""
