"""Named initial-value problems of the literature, each complete with outputs, invariants and reference values."""

import lazy_loader

# What there is stands in `__init__.pyi`; a problem is loaded when it is asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
