"""Results by the names of a model: bodies, joints, forces, outputs."""

from polhode.named.forces import ForceResults as ForceResults
from polhode.named.results import BodyResults as BodyResults
from polhode.named.results import JointResults as JointResults
