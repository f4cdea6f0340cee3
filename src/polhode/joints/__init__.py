"""Joints: constraints between bodies."""

from polhode.joints.lower_pairs import Cylindrical as Cylindrical
from polhode.joints.lower_pairs import Fixed as Fixed
from polhode.joints.lower_pairs import Planar as Planar
from polhode.joints.lower_pairs import Prismatic as Prismatic
from polhode.joints.lower_pairs import Revolute as Revolute
from polhode.joints.spherical import Spherical as Spherical
from polhode.joints.universal import Universal as Universal
