"""Results by the names of a model, and the audit."""

from .bodies_and_joints import BodyResults as BodyResults
from .bodies_and_joints import JointResults as JointResults
from .forces import ForceResults as ForceResults
