"""Flexible bodies in a floating frame of reference, from matrices of finite elements.

In: stiffness and mass matrices, nodes and modes. Out: a part that models add as a body. Open first:
`flexible_part.py`, then `flexible_body.py`.
"""

from polhode.flexible.flexible_part import FlexiblePart as FlexiblePart
from polhode.flexible.flexible_part import from_modes as from_modes
from polhode.flexible.flexible_part import reduced as reduced
from polhode.flexible.nodes import Patch as Patch
