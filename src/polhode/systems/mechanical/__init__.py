"""Mechanical systems of second order, with or without constraints on positions and on velocities."""

from polhode.systems.mechanical.abstract import START_TOLERANCE as START_TOLERANCE
from polhode.systems.mechanical.abstract import AbstractMechanical as AbstractMechanical
from polhode.systems.mechanical.abstract import Multipliers as Multipliers
from polhode.systems.mechanical.from_functions import Mechanical as Mechanical
from polhode.systems.mechanical.function_contacts import FunctionContacts as FunctionContacts
