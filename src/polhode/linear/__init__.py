"""Linear models of problems about states: for control, stability and response."""

from polhode.linear.floquet import floquet as floquet
from polhode.linear.linearise import linearise as linearise
from polhode.linear.model import LinearModel as LinearModel
from polhode.linear.multipliers import FloquetModel as FloquetModel
