"""Joints: constraints between bodies."""

from ._frames import axis as axis
from ._pair import AbstractPairJoint as AbstractPairJoint
from ._pair import join as join
from ._pair import turning_about as turning_about
from .combination import Combination as Combination
from .distance import Distance as Distance
from .generic import Generic as Generic
from .knife_edge import KnifeEdge as KnifeEdge
from .lower_pairs import Cylindrical as Cylindrical
from .lower_pairs import Fixed as Fixed
from .lower_pairs import Planar as Planar
from .lower_pairs import Prismatic as Prismatic
from .lower_pairs import Revolute as Revolute
from .measured import AbstractMeasured as AbstractMeasured
from .measured import AbstractMeasuredPair as AbstractMeasuredPair
from .point_on_line import PointOnLine as PointOnLine
from .prescribed import PrescribedMotion as PrescribedMotion
from .prescribed import PrescribedPose as PrescribedPose
from .prescribed import PrescribedRotation as PrescribedRotation
from .prescribed import PrescribedTranslation as PrescribedTranslation
from .rolling_ball import RollingBall as RollingBall
from .rolling_disc import RollingDisc as RollingDisc
from .rotor import RotorInertia as RotorInertia
from .screw import Screw as Screw
from .spherical import Spherical as Spherical
from .universal import Universal as Universal
