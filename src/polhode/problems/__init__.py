"""Named initial-value problems of the literature, each complete with outputs, invariants and reference values."""

import lazy_loader

# The names are in `__init__.pyi`; a problem is loaded when it is first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
