"""Runs that continue: from any frame of a solution in memory, or from the last state in a store, to the same bytes.

In: a previous run, and the task that is to continue it. Out: the part that this one takes up, or why it can't.
Open first: `previous_run.py`, which is made of a solution or of a store; `checkpoint.py` has the end of a run in both
forms, `identity.py` what must be the same, and `resume.py` the function `polhode.resume`.
"""
