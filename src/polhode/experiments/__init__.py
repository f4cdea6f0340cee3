"""The numerical experiments of the papers, repeated and checked claim by claim.

In: the name of an experiment. Out: checks, figures and data. Open first: `registry.py`, then a module of `papers/`.
"""

from polhode.experiments.registry import Check as Check
from polhode.experiments.registry import Experiment as Experiment
from polhode.experiments.registry import Outcome as Outcome
from polhode.experiments.registry import experiment as experiment
from polhode.experiments.registry import get as get
from polhode.experiments.registry import names as names
from polhode.experiments.reproduce import Report as Report
from polhode.experiments.reproduce import reproduce as reproduce
