"""Static equilibria and vibrations about them.

In: a model or problem. Out: equilibria along loads, eigenfrequencies and shapes. Open first: `equilibrium.py`.
"""

from polhode.analysis.statics._stability import UnstableEquilibriumWarning as UnstableEquilibriumWarning
from polhode.analysis.statics.equilibrium import equilibrium as equilibrium
from polhode.analysis.statics.modes import Modes as Modes
from polhode.analysis.statics.modes import modes as modes
from polhode.analysis.statics.result import Equilibrium as Equilibrium
from polhode.analysis.statics.result import EquilibriumError as EquilibriumError
