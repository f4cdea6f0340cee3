"""How accurately linear equations are solved for derivatives, on scalars and on arrays.

Corrections go on while each is less than `FALLING` of the one before, since components may differ by orders of
magnitude, and otherwise until one is less than `TOLERANCE` of the solution; below `NOISE` of it only while they get
smaller, by `STAYING`: round-off may be larger than the tolerance, and then they never end.
"""

CONTRACTION = 0.5
STAGNATION = 0.9
TOLERANCE = 1e-14
NOISE = 1e-9
MAX_CORRECTIONS = 200
"""Corrections at most."""

ACCEPTANCE = 1e-8
"""Relative size of the last correction up to which a solution counts as such."""
