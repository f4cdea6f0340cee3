"""Multibody systems: a mechanism, which knows poses and twists alone, in coordinates of its bodies."""

from .absolute import AbsoluteCoordinates as AbsoluteCoordinates
from .coordinates import AbstractCoordinates as AbstractCoordinates
from .elements import AbstractConstraintElement as AbstractConstraintElement
from .elements import AbstractForceElement as AbstractForceElement
from .elements import AbstractPotentialElement as AbstractPotentialElement
from .elements import AbstractRollingElement as AbstractRollingElement
from .formulations.base import AbstractFormulation as AbstractFormulation
from .formulations.euler_angles import EulerAngles as EulerAngles
from .formulations.euler_angles import EulerAnglesKinematic as EulerAnglesKinematic
from .formulations.euler_parameters import EulerParameters as EulerParameters
from .livens import LivensMultibody as LivensMultibody
from .mechanism import Mechanism as Mechanism
from .parts import AbstractForce as AbstractForce
from .parts import AbstractJoint as AbstractJoint
from .parts import AbstractPart as AbstractPart
from .poses import Pose as Pose
from .poses import Twist as Twist
from .separable import SeparableMultibody as SeparableMultibody
from .tree.coordinates import JointTree as JointTree
from .tree.motions import AbstractJointMotion as AbstractJointMotion
from .tree.motions import AbstractRelativeMotion as AbstractRelativeMotion
from .tree.motions import AxisMotion as AxisMotion
