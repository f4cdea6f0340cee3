"""Systems: equations of motion on a space.

In: functions of time and state. Out: one of the kinds of systems that methods take. Open first: `base.py`, then
`mechanical/`; `conversion.py` writes a system as one of another kind.
"""

from polhode.systems.base import AbstractConversion as AbstractConversion
from polhode.systems.base import AbstractSystem as AbstractSystem
from polhode.systems.base import Converted as Converted
from polhode.systems.conversion import Conversion as Conversion
from polhode.systems.discrete_gradients import AbstractDiscreteGradient as AbstractDiscreteGradient
from polhode.systems.discrete_gradients import Gonzalez as Gonzalez
from polhode.systems.discrete_gradients import MeanValue as MeanValue
from polhode.systems.discrete_gradients import Through as Through
from polhode.systems.hamiltonian import Hamiltonian as Hamiltonian
from polhode.systems.hamiltonian import LiePoisson as LiePoisson
from polhode.systems.lagrangian import AbstractLagrangian as AbstractLagrangian
from polhode.systems.lagrangian import AbstractParametrisedLagrangian as AbstractParametrisedLagrangian
from polhode.systems.lagrangian import Derivatives as Derivatives
from polhode.systems.lagrangian import Lagrangian as Lagrangian
from polhode.systems.lagrangian import LivensState as LivensState
from polhode.systems.mechanical import AbstractMechanical as AbstractMechanical
from polhode.systems.mechanical import Mechanical as Mechanical
from polhode.systems.quaternion_body import QuaternionBody as QuaternionBody
from polhode.systems.separable import AbstractSeparable as AbstractSeparable
from polhode.systems.separable import BodyStates as BodyStates
from polhode.systems.separable import Separable as Separable
from polhode.systems.vector_field import VectorField as VectorField
