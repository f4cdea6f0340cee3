"""One step after the other: constant and controlled steps, and the segments between discontinuities.

In: a method, a system and a carry. Out: the next carry, accepted or not. Open first: `stepper.py`.
"""
