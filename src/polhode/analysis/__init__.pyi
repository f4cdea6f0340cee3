"""Analysis of systems besides simulation: equilibria, modes, linear models, and studies over many runs."""

from . import linear as linear
from . import statics as statics
from . import studies as studies
