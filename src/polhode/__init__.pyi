"""Structure-preserving simulation of mechanical systems with large rotations.

Importing polhode switches JAX to 64-bit floating point.
"""

from . import analysis as analysis
from . import checks as checks
from . import events as events
from . import experiments as experiments
from . import exporters as exporters
from . import flexible as flexible
from . import forces as forces
from . import importers as importers
from . import integrators as integrators
from . import joints as joints
from . import linalg as linalg
from . import model as model
from . import multibody as multibody
from . import particles as particles
from . import problems as problems
from . import result_codes as result_codes
from . import results as results
from . import rods as rods
from . import simulation as simulation
from . import solution as solution
from . import spaces as spaces
from . import storage as storage
from . import systems as systems
from . import tables as tables
from . import time_functions as time_functions
from . import viewing as viewing
from .analysis import studies as studies
from .analysis.linear.floquet import floquet as floquet
from .analysis.linear.linearise import linearise as linearise
from .analysis.statics._stability import UnstableEquilibriumWarning as UnstableEquilibriumWarning
from .analysis.statics.equilibrium import equilibrium as equilibrium
from .analysis.statics.modes import modes as modes
from .analysis.statics.result import EquilibriumError as EquilibriumError
from .analysis.studies.fit import fit as fit
from .analysis.studies.fit_result import Fit as Fit
from .code_export.c_compiler import CompilerError as CompilerError
from .code_export.export_code import export_code as export_code
from .compiler.xla.entry_points import CompileTimeWarning as CompileTimeWarning
from .contact import shapes as shapes
from .cosimulation.cosimulate import Cosimulation as Cosimulation
from .cosimulation.cosimulate import cosimulate as cosimulate
from .cosimulation.instances import CosimulationError as CosimulationError
from .cosimulation.instances import UnitError as UnitError
from .cosimulation.unit import load_fmu as load_fmu
from .events.event import Event as Event
from .experiments.reproduce import reproduce as reproduce
from .importers import load_model as load_model
from .model import Model as Model
from .model import Parameter as Parameter
from .model import rotation_vector as rotation_vector
from .problem import Problem as Problem
from .result_codes import Result as Result
from .simulation.checkpoint.resume import resume as resume
from .simulation.diagnosis import StepSizeWarning as StepSizeWarning
from .simulation.ensembles.ensemble import ensemble as ensemble
from .simulation.ensembles.load import load_ensemble as load_ensemble
from .simulation.ensembles.result import Ensemble as Ensemble
from .simulation.events.located_contacts import FrictionLockWarning as FrictionLockWarning
from .simulation.run import InterruptionWarning as InterruptionWarning
from .simulation.run import SimulationError as SimulationError
from .simulation.simulate import simulate as simulate
from .simulation.stepping.step_control import StepControl as StepControl
from .solution.export import export as export
from .solution.load import load as load
from .solution.solution import Solution as Solution
from .storage.errors import StoreError as StoreError
from .systems.lagrangian import StartWarning as StartWarning
from .systems.vector_field import VectorField as VectorField
from .tables import CubicSpline as CubicSpline
from .tables import Table2D as Table2D
from .time_functions import PiecewiseLinear as PiecewiseLinear

__version__: str
