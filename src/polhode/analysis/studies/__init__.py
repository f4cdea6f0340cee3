"""Studies over many runs: orders, methods side by side, parameters from measured motion, Lyapunov exponents.

In: problems and methods. Out: tables of errors, orders and times. Open first: `convergence.py`.
"""

from polhode.analysis.studies.compare import compare as compare
from polhode.analysis.studies.comparison_result import Comparison as Comparison
from polhode.analysis.studies.convergence import Convergence as Convergence
from polhode.analysis.studies.convergence import convergence as convergence
from polhode.analysis.studies.convergence import observed_order as observed_order
from polhode.analysis.studies.fit import fit as fit
from polhode.analysis.studies.fit_result import Fit as Fit
from polhode.analysis.studies.lyapunov import Lyapunov as Lyapunov
from polhode.analysis.studies.lyapunov import lyapunov as lyapunov
from polhode.analysis.studies.predictability import ChaosWarning as ChaosWarning
from polhode.analysis.studies.work_precision import work_precision as work_precision
