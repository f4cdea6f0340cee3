"""Structure-preserving simulation of mechanical systems with large rotations.

Importing polhode switches JAX to 64-bit floating point.
"""

from polhode.compiler.cache import source_version as source_version  # isort: skip (before all others)
from polhode import _start as _start  # isort: skip (before JAX, which takes long to load)

import jax
import lazy_loader

from polhode.name_errors import getattr_with_suggestions

jax.config.update("jax_enable_x64", True)

# `__init__.pyi` lists the public names, which are loaded when they are first used.
__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)

__version__ = "0.2.0"

_INSTEAD = {
    **dict.fromkeys(("Motor", "Spring", "Damper", "Force", "Contact"), "Forces are in `polhode.forces`."),
    **dict.fromkeys(("Revolute", "Spherical", "Prismatic", "Gear", "Fixed"), "Joints are in `polhode.joints`."),
    **dict.fromkeys(("run", "solve", "integrate"), "It is called `simulate(problem, …)`."),
    **dict.fromkeys(("plot", "show", "view"), "Runs show themselves: `simulate(problem).show()`."),
    **dict.fromkeys(("load_urdf", "load_mjcf", "load_sdf", "read_urdf"), "`load_model(path)` reads them."),
}

__getattr__ = getattr_with_suggestions(__name__, __getattr__, __all__, _INSTEAD)
