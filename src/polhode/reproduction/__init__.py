"""The numerical experiments of the papers, run anew and checked claim by claim."""

from polhode.reproduction.registry import Check as Check
from polhode.reproduction.registry import Experiment as Experiment
from polhode.reproduction.registry import Outcome as Outcome
from polhode.reproduction.registry import experiment as experiment
from polhode.reproduction.registry import get as get
from polhode.reproduction.registry import names as names
from polhode.reproduction.reproduce import Report as Report
from polhode.reproduction.reproduce import reproduce as reproduce
