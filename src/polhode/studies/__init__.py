"""Studies over many runs: orders, methods side by side, parameters from measured motion, Lyapunov exponents."""

from polhode.studies.chaos import ChaosWarning as ChaosWarning
from polhode.studies.compare import compare as compare
from polhode.studies.comparison import Comparison as Comparison
from polhode.studies.convergence import Convergence as Convergence
from polhode.studies.convergence import convergence as convergence
from polhode.studies.convergence import observed_order as observed_order
from polhode.studies.fit import fit as fit
from polhode.studies.fitted import Fit as Fit
from polhode.studies.lyapunov import Lyapunov as Lyapunov
from polhode.studies.lyapunov import lyapunov as lyapunov
from polhode.studies.work_precision import work_precision as work_precision
