"""Lagrangian systems in the sense of Livens: positions, velocities and momenta as independent variables.

In: a Lagrangian and constraints. Out: what energy–momentum methods solve. Open first: `abstract.py`.
"""

from polhode.systems.lagrangian.abstract import AbstractLagrangian as AbstractLagrangian
from polhode.systems.lagrangian.abstract import AbstractParametrisedLagrangian as AbstractParametrisedLagrangian
from polhode.systems.lagrangian.abstract import Coordinates as Coordinates
from polhode.systems.lagrangian.abstract import CountedLivensState as CountedLivensState
from polhode.systems.lagrangian.abstract import Derivatives as Derivatives
from polhode.systems.lagrangian.abstract import LivensState as LivensState
from polhode.systems.lagrangian.abstract import Multipliers as Multipliers
from polhode.systems.lagrangian.from_functions import Lagrangian as Lagrangian
from polhode.systems.lagrangian.starts import COARSE_TOLERANCE as COARSE_TOLERANCE
from polhode.systems.lagrangian.starts import START_TOLERANCE as START_TOLERANCE
from polhode.systems.lagrangian.starts import Gaps as Gaps
from polhode.systems.lagrangian.starts import StartWarning as StartWarning
from polhode.systems.lagrangian.starts import check_gaps as check_gaps
from polhode.systems.lagrangian.starts import check_momenta as check_momenta
