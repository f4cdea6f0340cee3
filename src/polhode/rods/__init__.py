"""Rods: geometrically exact beams as parts of multibody models.

In: points, frames and sections. Out: nodes as bodies of a model, and edges as its force elements. Open first:
`add_to_model.py`, then `edge.py`.
"""

from polhode.rods.contact_results import RodContactState as RodContactState
from polhode.rods.contact_results import contact_forces as contact_forces
from polhode.rods.curves import catenary as catenary
from polhode.rods.loads import DistributedLoad as DistributedLoad
from polhode.rods.loads import RodContact as RodContact
from polhode.rods.rod import Rod as Rod
from polhode.rods.section import STRAINS as STRAINS
from polhode.rods.section import Section as Section
from polhode.rods.section import circular as circular
from polhode.rods.section import rectangle as rectangle
from polhode.rods.section import tube as tube
