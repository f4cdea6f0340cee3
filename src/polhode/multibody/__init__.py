"""Multibody systems: a mechanism, written in poses and twists, in coordinates of its bodies.

In: elements of joints and forces, and bodies in coordinates. Out: the equations of motion, `MultibodySystem`. Open
first: `system.py`, then `mechanism/mechanism.py` and `coordinates/base.py`, to which it passes on.
"""

import lazy_loader

# Names are listed in `__init__.pyi` and loaded when first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
