"""Systems: equations of motion on a space."""

from polhode.systems.base import AbstractSystem as AbstractSystem
from polhode.systems.hamiltonian import Hamiltonian as Hamiltonian
from polhode.systems.hamiltonian import LiePoisson as LiePoisson
from polhode.systems.mechanical import AbstractMechanical as AbstractMechanical
from polhode.systems.mechanical import Mechanical as Mechanical
from polhode.systems.vector_field import VectorField as VectorField
