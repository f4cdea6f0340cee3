"""Static equilibria and vibrations about them."""

from polhode.statics._stability import UnstableEquilibriumWarning as UnstableEquilibriumWarning
from polhode.statics.equilibrium import Equilibrium as Equilibrium
from polhode.statics.equilibrium import EquilibriumError as EquilibriumError
from polhode.statics.equilibrium import equilibrium as equilibrium
from polhode.statics.modes import Modes as Modes
from polhode.statics.modes import modes as modes
