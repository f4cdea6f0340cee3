"""Shapes on bodies, with which they touch each other."""

from .box import Box as Box
from .plane import Plane as Plane
from .shape import AbstractShape as AbstractShape
from .shape import MassProperties as MassProperties
from .sphere import Sphere as Sphere
