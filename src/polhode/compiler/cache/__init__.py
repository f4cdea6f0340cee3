"""Caches of compiled programs: in memory by the values they were built from, and on disk for later processes.

In: a function that builds a program, and what it is built from. Out: the program, built or loaded. Open first:
`program_cache.py` for memory, `disk_cache.py` for the user's cache folder.
"""
