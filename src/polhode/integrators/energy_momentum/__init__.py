"""Methods on Livens' principle: of Lagrangian systems, and of bodies with joints.

In: positions, velocities and momenta, and a step. Out: those at its end, with the energy of the start. Open first:
`method.py`, then `step.py` for bodies with joints and `lagrangian.py` for the rest.
"""

from polhode.integrators.energy_momentum.method import EnergyMomentum as EnergyMomentum
from polhode.integrators.energy_momentum.method import LivensMidpoint as LivensMidpoint
from polhode.integrators.energy_momentum.method import curve as curve
