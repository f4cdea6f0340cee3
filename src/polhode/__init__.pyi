"""Structure-preserving simulation of mechanical systems with large rotations.

Importing polhode switches JAX to 64-bit floating point.
"""

from . import audit as audit
from . import checks as checks
from . import driver as driver
from . import events as events
from . import execution as execution
from . import flexible as flexible
from . import forces as forces
from . import functions as functions
from . import importers as importers
from . import integrators as integrators
from . import joints as joints
from . import linalg as linalg
from . import linear as linear
from . import model as model
from . import multibody as multibody
from . import named as named
from . import particles as particles
from . import problems as problems
from . import reproduction as reproduction
from . import results as results
from . import rods as rods
from . import runs as runs
from . import solution as solution
from . import spaces as spaces
from . import statics as statics
from . import studies as studies
from . import systems as systems
from . import viewing as viewing
from .driver.control import StepControl as StepControl
from .driver.ensembles.ensemble import Ensemble as Ensemble
from .driver.ensembles.ensemble import ensemble as ensemble
from .driver.ensembles.reading import load_ensemble as load_ensemble
from .driver.resuming import resume as resume
from .driver.running import InterruptionWarning as InterruptionWarning
from .driver.running import SimulationError as SimulationError
from .driver.simulate import StepSizeWarning as StepSizeWarning
from .driver.simulate import simulate as simulate
from .events.event import Event as Event
from .functions import PiecewiseLinear as PiecewiseLinear
from .importers import load_model as load_model
from .linear.floquet import floquet as floquet
from .linear.linearise import linearise as linearise
from .model import Model as Model
from .model import Parameter as Parameter
from .model import rotation_vector as rotation_vector
from .problems.base import Problem as Problem
from .reproduction.reproduce import reproduce as reproduce
from .results import Result as Result
from .runs.errors import StoreError as StoreError
from .runs.reading import load as load
from .solution import Solution as Solution
from .statics._stability import UnstableEquilibriumWarning as UnstableEquilibriumWarning
from .statics.equilibrium import equilibrium as equilibrium
from .statics.modes import modes as modes
from .statics.result import EquilibriumError as EquilibriumError
from .studies.fit import fit as fit
from .studies.fitted import Fit as Fit
from .systems.lagrangian import StartWarning as StartWarning
from .systems.vector_field import VectorField as VectorField

__version__: str
