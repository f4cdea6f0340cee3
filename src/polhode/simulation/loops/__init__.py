"""Loops over steps: on the host with compiled blocks, in machine code, by XLA, or as one traced expression.

In: a stepper and the segments of a plan. Out: saved frames and the final carry. Open first: `host.py`.
"""
