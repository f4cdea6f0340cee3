"""Results by the names of a model: bodies, joints, forces, contacts, columns of tables; and the audit of a run.

In: saved states and the system they are of. Out: arrays by name. Open first: `quantity.py`, then `bodies.py`,
`joints.py`, `forces.py` and `contacts.py`, which declare the quantities, and `derived_quantities.py` for what is
computed instead of saved. `audit/` holds measurements against promises.
"""

import lazy_loader

# The names are in `__init__.pyi`, and are loaded when they are used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
