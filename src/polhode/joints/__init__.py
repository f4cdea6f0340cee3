"""Joints: constraints between bodies."""

from polhode.joints.spherical import Spherical as Spherical
