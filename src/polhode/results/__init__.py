"""What a run returns: frames, outputs and invariants, values by the names of the model, and the audit.

In: saved states and the system they are of. Out: arrays by name. Open first: `solution.py`, then `by_name.py`.
"""

import lazy_loader

# The names are in `__init__.pyi`, and are loaded when they are used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
