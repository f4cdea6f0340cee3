"""Structure-preserving simulation of mechanical systems with large rotations.

Importing polhode switches JAX to 64-bit floating point.
"""

import jax

jax.config.update("jax_enable_x64", True)
