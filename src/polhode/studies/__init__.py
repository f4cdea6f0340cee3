"""Studies over many runs: convergence, work and precision, parameters from measured motion."""

from polhode.studies.convergence import Convergence as Convergence
from polhode.studies.convergence import convergence as convergence
from polhode.studies.convergence import observed_order as observed_order
from polhode.studies.fit import fit as fit
from polhode.studies.fitted import Fit as Fit
from polhode.studies.work_precision import work_precision as work_precision
