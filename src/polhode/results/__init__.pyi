"""What a run returns: frames, outputs and invariants, values by the names of the model, and the audit."""

from .bodies_and_joints import BodyResults as BodyResults
from .bodies_and_joints import JointResults as JointResults
from .forces import ForceResults as ForceResults
from .solution import Solution as Solution
