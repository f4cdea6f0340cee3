"""Static equilibria and vibrations about them."""

from polhode.statics._stability import UnstableEquilibriumWarning as UnstableEquilibriumWarning
from polhode.statics.equilibrium import equilibrium as equilibrium
from polhode.statics.modes import Modes as Modes
from polhode.statics.modes import modes as modes
from polhode.statics.result import Equilibrium as Equilibrium
from polhode.statics.result import EquilibriumError as EquilibriumError
