"""Results by the names of a model, and the audit."""

from .bodies import BodyResults as BodyResults
from .contacts import ContactResults as ContactResults
from .forces import ForceResults as ForceResults
from .grips import GripResults as GripResults
from .joint_contacts import JointContactResults as JointContactResults
from .joints import JointResults as JointResults
from .pivots import PivotResults as PivotResults
from .quantity import Quantity as Quantity
