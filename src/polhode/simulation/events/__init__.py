"""Events of a run: zero crossings within steps, their instants, and what they do to the state and the system.

In: event functions of the user and of the model, and dense output of a step. Out: jumps of the state and records of
the events. Open first: `detection.py` for where, `handler.py` for what then. What users write is in `polhode.events`.
"""
