"""Forces: loads on bodies."""

from .bushing import Bushing as Bushing
from .compliant_contact import hertz_stiffness as hertz_stiffness
from .compliant_contact import impact_damping as impact_damping
from .controllers import PD as PD
from .controllers import PID as PID
from .coordinate_forces import AbstractEffort as AbstractEffort
from .joint_control import JointControl as JointControl
from .joint_forces import AbstractJointForce as AbstractJointForce
from .joint_forces import Actuator as Actuator
from .joint_forces import JointFriction as JointFriction
from .joint_forces import JointSpring as JointSpring
from .joint_forces import JointStops as JointStops
from .loads import PointForce as PointForce
from .loads import Torque as Torque
from .pivot_friction import PivotFriction as PivotFriction
from .plane_contact import PlaneContact as PlaneContact
from .spring_damper import SpringDamper as SpringDamper
from .tendon import Tendon as Tendon
from .torsional import TorsionalSpringDamper as TorsionalSpringDamper
from .user import Load as Load
from .user import Potential as Potential
