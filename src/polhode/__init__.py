"""Structure-preserving simulation of mechanical systems with large rotations.

Importing polhode switches JAX to 64-bit floating point.
"""

from polhode import _sources as _sources  # isort: skip (before all others)
from polhode import _start as _start  # isort: skip (before JAX, which takes long to load)

import jax
import lazy_loader

jax.config.update("jax_enable_x64", True)

# What there is stands in `__init__.pyi`, and is loaded when it is asked for.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.1.0"
