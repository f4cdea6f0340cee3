"""Tolerances of the iterative refinement in derivatives of implicit solutions, on scalars and on arrays.

Corrections continue while each is less than `CONTRACTION` times the one before, since components may differ by orders
of magnitude, and otherwise until one is less than `TOLERANCE` times the solution; below `NOISE` times the solution only
while each is less than `STAGNATION` times the one before, since round-off may be larger than the tolerance.
"""

CONTRACTION = 0.5
STAGNATION = 0.9
TOLERANCE = 1e-14
NOISE = 1e-9
MAX_CORRECTIONS = 200
"""Maximum number of corrections."""

ACCEPTANCE = 1e-8
"""Largest relative size of the last correction of a converged solution."""
