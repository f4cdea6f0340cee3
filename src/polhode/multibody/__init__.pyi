"""Multibody systems: a mechanism, written in poses and twists, in coordinates of its bodies."""

from .conversions.livens import LivensMultibody as LivensMultibody
from .conversions.separable import SeparableMultibody as SeparableMultibody
from .coordinates.absolute import AbsoluteCoordinates as AbsoluteCoordinates
from .coordinates.base import AbstractCoordinates as AbstractCoordinates
from .coordinates.tree.coordinates import JointTree as JointTree
from .coordinates.tree.motions import AbstractJointMotion as AbstractJointMotion
from .coordinates.tree.motions import AbstractRelativeMotion as AbstractRelativeMotion
from .coordinates.tree.motions import AxisMotion as AxisMotion
from .formulations.base import AbstractFormulation as AbstractFormulation
from .formulations.euler_angles import EulerAngles as EulerAngles
from .formulations.euler_angles import EulerAnglesKinematic as EulerAnglesKinematic
from .formulations.euler_parameters import EulerParameters as EulerParameters
from .mechanism.elements import AbstractConstraintElement as AbstractConstraintElement
from .mechanism.elements import AbstractForceElement as AbstractForceElement
from .mechanism.elements import AbstractPotentialElement as AbstractPotentialElement
from .mechanism.elements import AbstractRollingElement as AbstractRollingElement
from .mechanism.mechanism import Mechanism as Mechanism
from .mechanism.poses import Pose as Pose
from .mechanism.poses import Twist as Twist
from .parts import AbstractForce as AbstractForce
from .parts import AbstractJoint as AbstractJoint
from .parts import AbstractPart as AbstractPart
