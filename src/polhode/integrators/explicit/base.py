"""Base of all explicit methods for vector fields."""

from __future__ import annotations

from typing import ClassVar

from polhode.integrators.base import AbstractIntegrator
from polhode.integrators.nonsmooth.located_contacts import LocatedContacts
from polhode.systems.base import AbstractSystem
from polhode.systems.vector_field import VectorField


class AbstractExplicit(AbstractIntegrator):
    """An explicit one-step method for vector fields; for systems with contacts between impacts that are located."""

    kinds: ClassVar = (VectorField,)
    one_step: ClassVar = True
    divisible: ClassVar = True

    def for_system(self, system: AbstractSystem) -> AbstractIntegrator:
        """The method with contacts whose modes are held where bodies touch."""
        return LocatedContacts(self) if system.has_contacts else self
