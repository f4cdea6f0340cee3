"""Multibody systems: a mechanism, written in poses and twists, in coordinates of its bodies."""

import lazy_loader

# Names are listed in `__init__.pyi` and loaded when first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
