"""How accurately linear equations are solved for derivatives, on scalars and on arrays."""

SWEEPS = 200
TOLERANCE = 1e-14
CLOSE = 1e-8
"""Corrections at most, the relative size of the last one, and the one up to which a solution counts as such."""
