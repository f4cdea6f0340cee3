"""Many runs of one problem, in SIMD lanes, threads, processes or on devices.

In: a problem with arrays of parameters. Out: an `Ensemble`, in memory or in a store. Open first: `ensemble.py`.
"""
