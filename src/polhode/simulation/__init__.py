"""`simulate`: runs of a problem with a method, on the host and inside JAX transformations.

In: a problem or system, a method, steps or tolerances. Out: a `Solution`, in memory or in a store.
Open first: `simulate.py`. A call becomes a task (`task.py`: names resolved, input checked), and that a plan
(`run_plan.py`: segments between discontinuities, start, metadata), which a loop carries out; `run.py` makes the
solution of its outcome, `traced_run.py` the same inside transformations.

- `stepping/`: one step, constant or controlled, and the segments of a run. - `loops/`: host, machine code, XLA, traced.
- `events/`: detection within steps, and their effects. - `derivatives/`: tangents and adjoints of whole runs.
- `checkpoint/`: runs that continue from memory or from a store. - `ensembles/`: many runs of one problem.
"""
