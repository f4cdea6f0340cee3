"""Integrators: one-step maps on the state of a system."""

from polhode.integrators.base import AbstractIntegrator as AbstractIntegrator
from polhode.integrators.base import Carry as Carry
from polhode.integrators.base import StepInfo as StepInfo
from polhode.integrators.classical import ClassicalRungeKutta as ClassicalRungeKutta
from polhode.integrators.commutator_free import CommutatorFree as CommutatorFree
from polhode.integrators.commutator_free import Composition as Composition
from polhode.integrators.commutator_free import Scheme as Scheme
from polhode.integrators.energy_momentum import EnergyMomentum as EnergyMomentum
from polhode.integrators.energy_momentum import LivensMidpoint as LivensMidpoint
from polhode.integrators.generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from polhode.integrators.half_explicit import HalfExplicit as HalfExplicit
from polhode.integrators.half_explicit_tableaus import HalfExplicitTableau as HalfExplicitTableau
from polhode.integrators.hamiltonian_quaternions import HamiltonianQuaternions as HamiltonianQuaternions
from polhode.integrators.implicit_midpoint import ImplicitMidpoint as ImplicitMidpoint
from polhode.integrators.rattle import Rattle as Rattle
from polhode.integrators.rattle import StormerVerlet as StormerVerlet
from polhode.integrators.registry import get as get
from polhode.integrators.registry import names as names
from polhode.integrators.registry import options as options
from polhode.integrators.rigid_verlet import RigidVerlet as RigidVerlet
from polhode.integrators.rkmk import RKMK as RKMK
from polhode.integrators.rkmk4_two_commutators import RKMK4TwoCommutators as RKMK4TwoCommutators
from polhode.integrators.rodrigues import Rodrigues as Rodrigues
from polhode.integrators.symmetric_composition import SymmetricComposition as SymmetricComposition
from polhode.integrators.symplectic import SymplecticLieGroup as SymplecticLieGroup
from polhode.integrators.tableaus import Tableau as Tableau
