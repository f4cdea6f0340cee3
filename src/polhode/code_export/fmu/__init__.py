"""Functional mock-up units: exported code behind the functions of FMI 3.0, for co-simulation.

In: exported code and the problem that it is of. Out: an archive with the description, the source and a library for this
platform. Open first: `archive.py`; `instance.h` and `fmi3.c` are in C, and `binding.py` writes what they include.
"""
