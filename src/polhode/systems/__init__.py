"""Systems: equations of motion on a space."""

from polhode.systems.base import AbstractSystem as AbstractSystem
from polhode.systems.vector_field import VectorField as VectorField
