"""Multibody systems: a mechanism, which knows poses and twists alone, in coordinates of its bodies."""

import lazy_loader

# What there is stands in `__init__.pyi`, and is loaded when it is asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
