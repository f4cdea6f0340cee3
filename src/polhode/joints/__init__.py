"""Joints: constraints between bodies."""

import lazy_loader

# What there is stands in `__init__.pyi`; each is loaded when it is asked for, since a model has few of them.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
