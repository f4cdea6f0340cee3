"""Integrators: one-step maps on the state of a system.

In: a system, a carry (the state, and what the method remembers) and a step. Out: the next carry. Open first: `base.py`
for the interface, `explicit/rkmk.py` for a Runge–Kutta method with its loop over stages; `registry.py` has all names.
"""

from polhode.integrators.base import AbstractIntegrator as AbstractIntegrator
from polhode.integrators.base import Carry as Carry
from polhode.integrators.base import Estimate as Estimate
from polhode.integrators.base import StepInfo as StepInfo
from polhode.integrators.compatibility import suited as suited
from polhode.integrators.energy_momentum import EnergyMomentum as EnergyMomentum
from polhode.integrators.energy_momentum import LivensMidpoint as LivensMidpoint
from polhode.integrators.energy_momentum.hamiltonian_quaternions import HamiltonianQuaternions as HamiltonianQuaternions
from polhode.integrators.explicit.classical import ClassicalRungeKutta as ClassicalRungeKutta
from polhode.integrators.explicit.commutator_free import CommutatorFree as CommutatorFree
from polhode.integrators.explicit.commutator_free import Composition as Composition
from polhode.integrators.explicit.commutator_free import Scheme as Scheme
from polhode.integrators.explicit.half_explicit import HalfExplicit as HalfExplicit
from polhode.integrators.explicit.rkmk import RKMK as RKMK
from polhode.integrators.explicit.rkmk4_two_commutators import RKMK4TwoCommutators as RKMK4TwoCommutators
from polhode.integrators.implicit.bdf import BDF as BDF
from polhode.integrators.implicit.generalized_alpha import GeneralizedAlpha as GeneralizedAlpha
from polhode.integrators.implicit.implicit_midpoint import ImplicitMidpoint as ImplicitMidpoint
from polhode.integrators.nonsmooth.moreau import Moreau as Moreau
from polhode.integrators.registry import get as get
from polhode.integrators.registry import name_of as name_of
from polhode.integrators.registry import names as names
from polhode.integrators.registry import options as options
from polhode.integrators.tableaus.half_explicit import HalfExplicitTableau as HalfExplicitTableau
from polhode.integrators.tableaus.runge_kutta import Tableau as Tableau
from polhode.integrators.variational.rattle import Rattle as Rattle
from polhode.integrators.variational.rattle import StormerVerlet as StormerVerlet
from polhode.integrators.variational.rigid_verlet import RigidVerlet as RigidVerlet
from polhode.integrators.variational.rodrigues import Rodrigues as Rodrigues
from polhode.integrators.variational.symmetric_composition import SymmetricComposition as SymmetricComposition
from polhode.integrators.variational.symplectic import SymplecticLieGroup as SymplecticLieGroup
