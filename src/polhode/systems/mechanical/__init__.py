"""Mechanical systems of second order, with or without constraints on positions and on velocities.

In: a space, a mass matrix, forces, constraints, contacts. Out: systems for methods with accelerations or impulses.
Open first: `abstract.py`; `contact_set.py` is the interface of contacts.
"""

from polhode.systems.mechanical.abstract import START_TOLERANCE as START_TOLERANCE
from polhode.systems.mechanical.abstract import AbstractMechanical as AbstractMechanical
from polhode.systems.mechanical.abstract import Multipliers as Multipliers
from polhode.systems.mechanical.from_functions import Mechanical as Mechanical
from polhode.systems.mechanical.function_contacts import FunctionContacts as FunctionContacts
