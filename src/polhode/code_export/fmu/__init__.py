"""Functional mock-up units: exported code behind the functions of FMI, for co-simulation.

In: exported code and the problem that it is of. Out: an archive with the description, the source and a library for this
platform. Open first: `archive.py`; `standard.py` says what versions of FMI differ in. `instance.h`, `fmi2.c` and
`fmi3.c` are in C, the same for all models; `model_header.py` writes what they include.
"""
