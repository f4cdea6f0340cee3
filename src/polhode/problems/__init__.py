"""Named initial-value problems of the literature, each complete with outputs, invariants and reference values.

In: a name and parameters. Out: a `Problem`. Open first: `named/pendulum_3d.py` as an example, then `declaration.py`,
which checks parameters and builds the problem.
"""

import lazy_loader

# The names are in `__init__.pyi`; a problem is loaded when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
