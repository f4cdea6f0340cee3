"""Linear models of problems about states: for control, stability and response."""

from polhode.linear.linearise import linearise as linearise
from polhode.linear.model import LinearModel as LinearModel
