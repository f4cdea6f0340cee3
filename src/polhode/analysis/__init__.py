"""Analysis of systems besides simulation: equilibria, modes, linear models, and studies over many runs.

In: a problem, or several. Out: states, matrices and tables. Open first: `statics/equilibrium.py`, `linear/linearise.py`
or `studies/compare.py`.
"""

import lazy_loader

# The names are in `__init__.pyi`, and are loaded when they are used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
