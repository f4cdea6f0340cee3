"""Methods on Livens' principle: of Lagrangian systems, and of bodies with joints."""

from polhode.integrators.energy_momentum.method import EnergyMomentum as EnergyMomentum
from polhode.integrators.energy_momentum.method import LivensMidpoint as LivensMidpoint
from polhode.integrators.energy_momentum.method import curve as curve
