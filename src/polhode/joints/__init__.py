"""Joints: constraints between bodies."""

from polhode.joints._pair import AbstractPairJoint as AbstractPairJoint
from polhode.joints.combination import Combination as Combination
from polhode.joints.distance import Distance as Distance
from polhode.joints.generic import Generic as Generic
from polhode.joints.knife_edge import KnifeEdge as KnifeEdge
from polhode.joints.lower_pairs import Cylindrical as Cylindrical
from polhode.joints.lower_pairs import Fixed as Fixed
from polhode.joints.lower_pairs import Planar as Planar
from polhode.joints.lower_pairs import Prismatic as Prismatic
from polhode.joints.lower_pairs import Revolute as Revolute
from polhode.joints.measured import AbstractMeasured as AbstractMeasured
from polhode.joints.measured import AbstractMeasuredPair as AbstractMeasuredPair
from polhode.joints.point_on_line import PointOnLine as PointOnLine
from polhode.joints.prescribed import PrescribedMotion as PrescribedMotion
from polhode.joints.prescribed import PrescribedPose as PrescribedPose
from polhode.joints.prescribed import PrescribedRotation as PrescribedRotation
from polhode.joints.prescribed import PrescribedTranslation as PrescribedTranslation
from polhode.joints.rolling_ball import RollingBall as RollingBall
from polhode.joints.rolling_disc import RollingDisc as RollingDisc
from polhode.joints.rotor import RotorInertia as RotorInertia
from polhode.joints.screw import Screw as Screw
from polhode.joints.spherical import Spherical as Spherical
from polhode.joints.universal import Universal as Universal
