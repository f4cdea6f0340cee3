"""Linear models of problems about states: for control, stability and response.

In: a problem and a state. Out: A, B, C, D with names, or Floquet multipliers. Open first: `linearise.py`.
"""

from polhode.analysis.linear.floquet import floquet as floquet
from polhode.analysis.linear.linearise import linearise as linearise
from polhode.analysis.linear.multipliers import FloquetModel as FloquetModel
from polhode.analysis.linear.state_space_model import LinearModel as LinearModel
