"""Runs that continue: from any frame of a solution in memory, or from the last state in a store, to the same bytes.

In: a former run, and the task that is to continue it. Out: its carry, or the reason why it can't. Open first:
`continuation.py`.
"""
