"""Studies over many runs: convergence, work and precision."""

from polhode.studies.convergence import Convergence as Convergence
from polhode.studies.convergence import convergence as convergence
from polhode.studies.convergence import observed_order as observed_order
from polhode.studies.work_precision import work_precision as work_precision
