"""Flexible bodies in a floating frame of reference, from matrices of finite elements."""

from polhode.flexible.nodes import Patch as Patch
from polhode.flexible.part import FlexiblePart as FlexiblePart
from polhode.flexible.part import from_modes as from_modes
from polhode.flexible.part import reduced as reduced
