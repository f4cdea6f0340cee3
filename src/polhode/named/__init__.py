"""Results by the names of a model: bodies, joints, outputs."""

from polhode.named.results import BodyResults as BodyResults
from polhode.named.results import JointResults as JointResults
