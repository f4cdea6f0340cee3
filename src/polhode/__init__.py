"""Structure-preserving simulation of mechanical systems with large rotations.

Importing polhode switches JAX to 64-bit floating point.
"""

import jax

jax.config.update("jax_enable_x64", True)

# Problems are made of models, which share their checks of parameters: they have to come first.
from polhode import problems as problems  # noqa: E402

# isort: split
from polhode import forces as forces  # noqa: E402
from polhode import integrators as integrators  # noqa: E402
from polhode import joints as joints  # noqa: E402
from polhode import rods as rods  # noqa: E402
from polhode import spaces as spaces  # noqa: E402
from polhode import studies as studies  # noqa: E402
from polhode import systems as systems  # noqa: E402
from polhode.driver.control import StepControl as StepControl  # noqa: E402
from polhode.driver.resuming import resume as resume  # noqa: E402
from polhode.driver.running import SimulationError as SimulationError  # noqa: E402
from polhode.driver.simulate import StepSizeWarning as StepSizeWarning  # noqa: E402
from polhode.driver.simulate import simulate as simulate  # noqa: E402
from polhode.functions import PiecewiseLinear as PiecewiseLinear  # noqa: E402
from polhode.importers import load_model as load_model  # noqa: E402
from polhode.model import Model as Model  # noqa: E402
from polhode.model import rotation_vector as rotation_vector  # noqa: E402
from polhode.problems.base import Problem as Problem  # noqa: E402
from polhode.reproduction import reproduce as reproduce  # noqa: E402
from polhode.results import Result as Result  # noqa: E402
from polhode.runs.errors import StoreError as StoreError  # noqa: E402
from polhode.runs.reading import load as load  # noqa: E402
from polhode.solution import Solution as Solution  # noqa: E402
from polhode.statics import EquilibriumError as EquilibriumError  # noqa: E402
from polhode.statics import equilibrium as equilibrium  # noqa: E402
from polhode.statics import modes as modes  # noqa: E402
from polhode.systems.lagrangian import StartWarning as StartWarning  # noqa: E402
from polhode.systems.vector_field import VectorField as VectorField  # noqa: E402

__version__ = "0.1.0"
